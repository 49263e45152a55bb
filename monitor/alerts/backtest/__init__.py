"""Backtest: run the rules on past measurements with the live code, and score their alarms. Nothing is stored or
notified."""
