"""Types of a result's fields with bounds, checked at both ends when decoding.

Bounds may widen but never narrow: stored transfers and spooled results are decoded with them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

LARGEST_SMALLINT = 2**15 - 1
LARGEST_INTEGER = 2**31 - 1
# With the two above: the largest numbers of PostgreSQL's integer types.
LARGEST_BIGINT = 2**63 - 1
# Payload of the largest IPv6 echo request; for IPv4 it is 20 bytes less.
LARGEST_PACKET_BYTES = 65_527
# A spool with 1,000 results a second reaches it after 34 years: a larger number is a sender's fault.
LARGEST_SEQUENCE = 2**40
LARGEST_AMOUNT = 1e18
# The longest timeout in mesh.toml; today's timeout is no bound, as the mesh may have changed since the measurement.
LONGEST_RTT_MS = 60_000.0
LONGEST_TEST_S = 86_400.0
MAX_INTERVALS = 4000
MAX_ICMP_ERRORS = 64

Moment = Annotated[datetime, Meta(tz=True)]

NO_NUL = r"\A[^\0]*\Z"
# PostgreSQL's text cannot hold a NUL.
Text = Annotated[str, Meta(pattern=NO_NUL)]
# In nearly every result; a regular expression would take as long as all other checks.
ShortText = Annotated[str, Meta(max_length=64)]

TestName = Annotated[str, Meta(max_length=200)]

# 0 and 0xFFFF are the same number to an Internet checksum: neither is a flow.
LARGEST_ICMP_FLOW = 2**16 - 2

Octet = Annotated[int, Meta(ge=0, le=255)]
IcmpFlow = Annotated[int, Meta(ge=1, le=LARGEST_ICMP_FLOW)]
SmallCount = Annotated[int, Meta(ge=0, le=LARGEST_SMALLINT)]
PositiveSmallCount = Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
PositiveCount = Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)]
LargeCount = Annotated[int, Meta(ge=0, le=LARGEST_BIGINT)]
PacketBytes = Annotated[int, Meta(ge=0, le=LARGEST_PACKET_BYTES)]
SequenceNumber = Annotated[int, Meta(ge=0, le=LARGEST_SEQUENCE)]

# Bounds reject infinity and NaN, here and in all numbers below.
Real = Annotated[float, Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_AMOUNT)]
# A measured rate is always positive.
Rate = Annotated[float, Meta(gt=0.0, le=LARGEST_AMOUNT)]
Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]
RttMs = Annotated[float, Meta(ge=0.0, le=LONGEST_RTT_MS)]
Seconds = Annotated[float, Meta(ge=0.0, le=LONGEST_TEST_S)]
