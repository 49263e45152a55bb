"""Routes of paths over time, and their traces."""
