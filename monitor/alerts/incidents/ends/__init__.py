"""When the losses of an incident ended."""
