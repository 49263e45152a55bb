"""Transactions that a standby must have too before a delivery is acknowledged, where SOUNDINGS_ACKNOWLEDGE=standby.

The commit waits until a synchronous standby has replayed it (`synchronous_commit = remote_apply`). No timeout of
PostgreSQL ends that wait; it is cancelled after `WAIT_S`, with a warning only, since the transaction is committed on
the primary by then. Here it is an error, and the agent delivers again. PostgreSQL waits for no transaction that wrote
nothing, such as a batch that is stored already: so each writes an empty message to the write-ahead log.
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
BEGIN = """
    SELECT set_config('synchronous_commit', 'remote_apply', true), pg_logical_emit_message(true, 'soundings', '')
"""


class NotReplicated(OperationalError):
    """The transaction is committed on the primary; whether the standby has it is unknown."""


@contextmanager
def durable_transaction() -> Iterator[None]:
    """A transaction of its own, committed on the standby too if that is set. Raises `NotReplicated`."""
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
