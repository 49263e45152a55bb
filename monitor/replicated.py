"""Transactions that a standby must have before a delivery is acknowledged (SOUNDINGS_ACKNOWLEDGE=standby).

PostgreSQL's wait (`synchronous_commit = remote_apply`) has no timeout: `WAIT_S` cancels it, and the agent delivers
again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.conf import settings
from django.db import OperationalError, connection, transaction
from psycopg.errors import TransactionResolutionUnknown

PRIMARY, STANDBY = "primary", "standby"
WAIT_S = 10.0
# The empty message: PostgreSQL does not wait for a transaction that wrote nothing.
BEGIN = """
    SELECT set_config('synchronous_commit', 'remote_apply', true), pg_logical_emit_message(true, 'soundings', '')
"""


class NotReplicated(OperationalError):
    """The transaction is committed on the primary; whether the standby has it is unknown."""


@contextmanager
def durable_transaction() -> Iterator[None]:
    """Commit on the standby too, if set. Raises `NotReplicated`."""
    if settings.ACKNOWLEDGE == PRIMARY:
        with transaction.atomic(durable=True):
            yield
        return
    warnings: list[str] = []
    connection.ensure_connection()
    server: psycopg.Connection = connection.connection

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(diagnostic.message_primary or "")

    server.add_notice_handler(note)
    timer = threading.Timer(WAIT_S, server.cancel_safe)
    timer.daemon = True
    try:
        with transaction.atomic(durable=True):
            with connection.cursor() as cursor:
                cursor.execute(BEGIN)
            yield
            warnings.clear()  # those of the commit alone count
            timer.start()
    finally:
        timer.cancel()
        server.remove_notice_handler(note)
    if warnings:
        raise NotReplicated("the standby has not stored it") from TransactionResolutionUnknown(warnings[0])
