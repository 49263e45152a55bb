"""PostgreSQL advisory lock that serialises applying and planning."""

from __future__ import annotations

from django.db import connection

# Key of the advisory lock, unique in this database.
_KEY = 0x50_55_4E_44_4D_45_53_48


def hold_until_commit() -> None:
    """Take the advisory lock until the transaction ends."""
    if not connection.in_atomic_block:
        raise RuntimeError("the advisory lock needs a transaction; call inside transaction.atomic()")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_KEY])
