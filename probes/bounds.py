"""Types of a result's fields with their bounds, which both ends check when they decode a message.

Bounds are those of the field (a TTL is an octet) or of the database's columns. Constructing a struct checks nothing, so
measuring pays nothing for them. They may widen but never narrow: stored transfers and results in a spool are decoded
with them too.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

LARGEST_SMALLINT = 2**15 - 1
LARGEST_INTEGER = 2**31 - 1
LARGEST_BIGINT = 2**63 - 1
"""The largest number of each integer type of PostgreSQL."""
LARGEST_PACKET_BYTES = 65_527
"""Payload of the largest IPv6 echo request; an IPv4 one takes 20 bytes less."""
LARGEST_SEQUENCE = 2**40
"""Maximum sequence number: a spool with 1,000 results a second reaches it after 34 years, so a larger number is a fault
of its sender."""
LARGEST_AMOUNT = 1e18
LONGEST_RTT_MS = 60_000.0
"""Maximum RTT: the longest timeout that mesh.toml allows, 60 s. The timeout configured today is no bound, since the
mesh may have changed after the measurement."""
LONGEST_TEST_S = 86_400.0
MAX_INTERVALS = 4000
MAX_ICMP_ERRORS = 64

Moment = Annotated[datetime, Meta(tz=True)]

NO_NUL = r"\A[^\0]*\Z"
Text = Annotated[str, Meta(pattern=NO_NUL)]
"""PostgreSQL's text cannot hold a NUL."""
ShortText = Annotated[str, Meta(max_length=64)]
"""A short text present in nearly every result: a regular expression would take as long as all other checks."""

TestName = Annotated[str, Meta(max_length=200)]

LARGEST_ICMP_FLOW = 2**16 - 2
"""0 and 0xFFFF are the same number to an Internet checksum: neither is a flow."""

Octet = Annotated[int, Meta(ge=0, le=255)]
IcmpFlow = Annotated[int, Meta(ge=1, le=LARGEST_ICMP_FLOW)]
SmallCount = Annotated[int, Meta(ge=0, le=LARGEST_SMALLINT)]
PositiveSmallCount = Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
PositiveCount = Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)]
LargeCount = Annotated[int, Meta(ge=0, le=LARGEST_BIGINT)]
PacketBytes = Annotated[int, Meta(ge=0, le=LARGEST_PACKET_BYTES)]
SequenceNumber = Annotated[int, Meta(ge=0, le=LARGEST_SEQUENCE)]

Real = Annotated[float, Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]
"""Finite, as are all numbers below: bounds reject infinity and NaN."""
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_AMOUNT)]
Rate = Annotated[float, Meta(gt=0.0, le=LARGEST_AMOUNT)]
"""A measured rate is always positive."""
Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]
RttMs = Annotated[float, Meta(ge=0.0, le=LONGEST_RTT_MS)]
Seconds = Annotated[float, Meta(ge=0.0, le=LONGEST_TEST_S)]
