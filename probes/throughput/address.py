"""Addresses of a throughput test: resolve a name in a given family, and tell whether an address is local."""

from __future__ import annotations

import ipaddress
import socket

from probes.contract import NameNotResolved


def resolve(name: str, family: int) -> str:
    """The first address of `name` in family 4 or 6. Raises `NameNotResolved`."""
    try:
        literal = ipaddress.ip_address(name)
    except ValueError:
        return _look_up(name, family)
    if literal.version != family:
        raise NameNotResolved(f"{name} is not an IPv{family} address", permanent=True)
    return str(literal)


def is_local(address: str) -> bool:
    """Whether a socket can be bound to `address`, that is, whether it is an address of this host."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((address, 0))
    except OSError:
        return False
    return True


def _look_up(name: str, family: int) -> str:
    address_family = socket.AF_INET if family == 4 else socket.AF_INET6
    try:
        answers = socket.getaddrinfo(name, None, family=address_family, type=socket.SOCK_DGRAM)
    except (socket.gaierror, UnicodeError) as error:
        raise NameNotResolved(f"{name} does not resolve to an IPv{family} address: {error}") from error
    return str(answers[0][4][0])
