"""Addresses as the archive's columns hold them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(maxsize=65_536)
def is_address(text: str) -> bool:
    """Whether it is an address that PostgreSQL's inet can hold: without a zone identifier."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
