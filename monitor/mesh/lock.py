"""One writer of the mesh at a time: an advisory lock of PostgreSQL that applying and planning both take."""

from __future__ import annotations

from django.db import connection

_KEY = 0x50_55_4E_44_4D_45_53_48
"""Any number that nobody else locks in this database."""


def hold_until_commit() -> None:
    """Wait until no other transaction writes the mesh, and keep others waiting until this one ends."""
    if not connection.in_atomic_block:
        raise RuntimeError("the lock ends with its transaction; take it inside transaction.atomic()")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_KEY])
