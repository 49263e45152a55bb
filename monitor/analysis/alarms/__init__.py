"""Vectorised tests for degraded paths: counts that rose, values that shifted. Pure; the false alarm rate is stated per
path and hour (docs/method/alerts.md)."""
