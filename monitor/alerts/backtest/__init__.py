"""Backtest: run the rules on past measurements with the code that runs live, and score their alarms.

`recorded` is a source of snapshots from arrays; `replay` steps through past moments and keeps incidents in memory;
`labelled` replays series whose changes a person has marked. Nothing is stored or notified.
"""
