"""Routes: comparing them. Pure functions."""
