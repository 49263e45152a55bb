"""Grafana as code: dashboards built in Python from the queries in `sql/`, written to `json/`, provisioned from there.

`python -m dashboards` writes the JSON. Nothing here is imported by the centre or by a site's agent.
"""
