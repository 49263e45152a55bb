"""Faults planted one after the other in a running lab: scores the statements about the present, surface by surface."""
