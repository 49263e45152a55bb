"""Run Grafana's requests: every query, variable, annotation and alert rule of `dashboards/`.

The queries go through Grafana's own PostgreSQL plugin, and alert rules through its expressions: a Go program in `go/`
that is built for the test and is not part of the product. `python -m tests.grafana` is the command.
"""
