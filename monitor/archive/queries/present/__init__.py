"""Arrived bursts, with the order of their packets, from which the present of a path is followed."""
