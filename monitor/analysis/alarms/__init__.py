"""What proves that a path has become worse, for all paths at once: counts that rose, values that shifted.

Pure: arrays of all paths in, arrays out; no database, no clock. The tests have a stated rate of false alarms per path
and hour, every look counted; docs/alerts.md has the theory beside what simulations gave. Sudden changes of round-trip
times are in `monitor.analysis.changes`; what follows from an alarm is decided in `monitor.alerts`.
"""
