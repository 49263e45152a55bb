"""Metrics for Prometheus; docs/prometheus.md lists the names.

Values are read from the database and Redis at each request: every process returns the same.
"""
