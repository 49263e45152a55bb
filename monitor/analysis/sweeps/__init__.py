"""Grids of throughput tests: the sweet spot of a sweep, and the best setting over the day."""
