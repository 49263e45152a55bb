"""Routes of paths over time, and the traces that show them."""
