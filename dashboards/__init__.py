"""Grafana as code, from the queries in `sql/`; neither centre nor agent imports this package."""
