"""Types of the keys of limits.toml."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from msgspec import Meta

from probes.toml.keys import check, meaning, must_be


def network_fault(text: str) -> str | None:
    """Why `text` is not a network, and the fix, or None."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            return 'is not a network; write it as "10.1.0.0/16"'
        return f'has host bits set; write "{network}"'
    return None


NetworkList = tuple[Annotated[str, check(network_fault)], ...]
HourRange = Annotated[
    str,
    must_be(
        'HH:MM-HH:MM in UTC, as "20:00-06:00"',
        r"([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)",
    ),
]
HourList = tuple[HourRange, ...]
Number = Annotated[float, Meta(ge=0, lt=1e18)]
Hours = Annotated[HourList, meaning("hours of the day (UTC) that contain every measurement")]
ALL_DAY = ("00:00-24:00",)
# Tolerance of comparisons with a limit, for rounding.
FLOAT_SLACK = 1e-9
