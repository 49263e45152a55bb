"""Measures networks from this host; never imports the centre."""

__version__ = "0.1.0"
