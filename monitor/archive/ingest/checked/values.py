"""Types of single values with the bounds that their columns and the field set."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta

from monitor.archive.columns import LARGEST_BIGINT, LARGEST_INTEGER, LARGEST_SMALLINT
from probes.contract import Outcome

LARGEST_PACKET_BYTES = 65_527
"""Payload of the largest IPv6 echo request; an IPv4 one takes 20 bytes less."""
LONGEST_RTT_MS = 60_000.0
"""Maximum RTT: the longest timeout that mesh.toml allows, 60 s. The timeout configured today is no bound, since the
mesh may have changed after the measurement."""
LARGEST_SEQUENCE = 2**40
"""Maximum sequence number: a spool with 1,000 results a second reaches it after 34 years, so a larger number is a fault
of its sender."""

MEASURED = Outcome.MEASURED

Moment = Annotated[datetime, Meta(tz=True)]
NO_NUL = r"\A[^\0]*\Z"
Text = Annotated[str, Meta(pattern=NO_NUL)]
"""PostgreSQL's text cannot hold a NUL."""
Word = Annotated[str, Meta(max_length=64)]
"""A short text present in nearly every result: a regular expression would take as long as all other checks."""
Sequence = Annotated[int, Meta(ge=0, le=LARGEST_SEQUENCE)]
Small = Annotated[int, Meta(ge=0, le=LARGEST_SMALLINT)]
Integer = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Bigint = Annotated[int, Meta(ge=0, le=LARGEST_BIGINT)]
Octet = Annotated[int, Meta(ge=0, le=255)]
LARGEST_AMOUNT = 1e18
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_AMOUNT)]
"""Finite number: rejects infinity and NaN."""
RoundTrip = Annotated[float, Meta(ge=0.0, le=LONGEST_RTT_MS)]
LONGEST_TEST_S = 86_400.0
Second = Annotated[float, Meta(ge=0.0, le=LONGEST_TEST_S)]

Rate = Annotated[float, Meta(gt=0.0, le=LARGEST_AMOUNT)]
"""A measured rate is always positive."""


@lru_cache(maxsize=4096)
def is_address(text: str) -> bool:
    """Whether PostgreSQL's inet can hold it; inet has no zone identifiers, which are local to a host."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text
