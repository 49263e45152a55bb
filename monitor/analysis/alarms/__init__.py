"""Tests for degraded paths, for all paths at once: counts that rose, values that shifted.

Pure: arrays of all paths in, arrays out; no database, no clock. The tests have a stated false alarm rate per path and
hour, every evaluation counted; docs/method/alerts.md has the theory. `monitor.analysis.changes` detects sudden RTT
changes; `monitor.alerts` acts on alarms.
"""
