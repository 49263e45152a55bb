"""Store host inventories, equal inventories once, by the SHA-256 of their JSON."""

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
    """Store inventories by digest, in digest order, so that deliveries do not deadlock; return identifiers."""
    ids = {}
    with connection.cursor() as cursor:
        for digest in sorted(times):
            inventory, at = times[digest]
            text = msgspec.json.encode(for_jsonb(inventory)).decode()
            cursor.execute(statement("store_inventory"), {"digest": digest, "inventory": text, "at": at})
            (ids[digest],) = cursor.fetchone()
    return ids


def digest_of(inventory: HostInventory) -> bytes:
    """SHA-256 of the inventory's JSON."""
    return hashlib.sha256(msgspec.json.encode(inventory, order="deterministic")).digest()
