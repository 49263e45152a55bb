"""Statements about when a longer RTT begins, lasts and ends, scored on simulated paths."""
