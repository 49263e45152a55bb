"""Independent definitions that tests hold the figures of production against."""
