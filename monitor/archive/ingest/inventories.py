"""Store the inventories of hosts, equal ones once.

In: the inventories of a batch, within its transaction. Out: the identifier of each. An inventory is recognised by the
SHA-256 of its JSON; `last_at` is that of the newest test with it, for retention.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

import msgspec
from django.db import connection

from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.statements import statement
from probes.transfers.hosts.spec import HostInventory


def store_inventories(times: Mapping[bytes, tuple[HostInventory, datetime]]) -> dict[bytes, int]:
    """Store inventories by their digest, each with the time of a test of it; returns their identifiers.

    In the order of the digests, so that two deliveries with the same inventories do not deadlock.
    """
    ids = {}
    with connection.cursor() as cursor:
        for digest in sorted(times):
            inventory, at = times[digest]
            text = msgspec.json.encode(for_jsonb(inventory)).decode()
            cursor.execute(statement("store_inventory"), {"digest": digest, "inventory": text, "at": at})
            (ids[digest],) = cursor.fetchone()
    return ids


def digest_of(inventory: HostInventory) -> bytes:
    """The digest by which an inventory is recognised."""
    return hashlib.sha256(msgspec.json.encode(inventory, order="deterministic")).digest()
