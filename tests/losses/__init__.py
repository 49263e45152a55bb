"""Statements about when losses begin, last and end, scored on simulated paths."""
