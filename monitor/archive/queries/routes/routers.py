"""Routers on the routes of all paths."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.statements import check_period, run_statement


def routers_since(since: datetime) -> list[str]:
    """Distinct addresses on routes traced since this time."""
    return [address for (address,) in run_statement("routers_since", since=since)[1]]


def routers_between(since: datetime, until: datetime) -> list[str]:
    """Distinct addresses on routes within a period."""
    check_period(since, until)
    return [address for (address,) in run_statement("routers_between", since=since, until=until)[1]]
