"""Metrics for Prometheus: `/metrics`, the state of centre and agents; `/metrics/paths`, the newest values of each path.

All values are read from the database and Redis at each request, so every process returns the same. Collectors are in
`system` and `paths`, who may ask how often in `views`. docs/prometheus.md lists the names.
"""
