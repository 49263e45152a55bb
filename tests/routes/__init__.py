"""Simulated routes, RTTs and loss with planted changes and faults, and how often analysis.routes is right."""
