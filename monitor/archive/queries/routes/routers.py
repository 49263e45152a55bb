"""Routers on the routes of all paths."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.statements import check_period, run_statement


def routers_since(since: datetime) -> list[str]:
    """Addresses on the routes that a trace showed since this time, each once."""
    return [address for (address,) in run_statement("routers_since", since=since)[1]]


def routers_between(since: datetime, until: datetime) -> list[str]:
    """Addresses on the routes that paths had within a period, each once."""
    check_period(since, until)
    return [address for (address,) in run_statement("routers_between", since=since, until=until)[1]]
