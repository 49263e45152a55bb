"""Addresses of a throughput test: resolving in a family, and whether local."""

from __future__ import annotations

import socket

from probes.packets.resolve import resolve_name


def resolve_address(name: str, family: int) -> str:
    """Resolve in family 4 or 6, with zone. Raises `NameNotResolved`."""
    address = resolve_name(name, family)[0]
    _, percent, zone = name.partition("%")
    return f"{address.partition('%')[0]}{percent}{zone}"


def is_local(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((address, 0))
    except OSError:
        return False
    return True
