"""Metrics for Prometheus: `/metrics`, the state of centre and agents; `/metrics/paths`, the newest values of each path.

All values come from the database and Redis when they are asked for, so every process gives the same. Collectors are in
`system` and `paths`, who may ask how often in `views`. docs/prometheus.md lists the names.
"""
