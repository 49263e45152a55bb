"""Directions of an incident's loss and delay, as STAMP tests measure them: collected, and in words."""
