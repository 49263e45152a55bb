"""Grafana as code: dashboards built in Python from the queries in `sql/`, written to `json/`, provisioned from there.

`python -m dashboards` writes the JSON. Neither the centre nor an agent imports this package.
"""
