"""The fields of a member of an aggregate test: a throughput test that runs at the same time as others.

Several pairs of hosts send in the same slot. Each pair is a member with its own slot, server port and result; the
centre adds them up (`monitor.archive.aggregates`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from probes.transfers.slot import TransferSlot
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec


class AggregateSlot(TransferSlot, frozen=True, kw_only=True, tag="aggregate", tag_field="kind"):
    """The slot of a member. The slots of all members of a test begin and end at the same times."""

    spec: ThroughputSpec


class MemberRun(ThroughputRun, frozen=True, kw_only=True, gc=False, tag="aggregate", tag_field="kind"):
    """Result of a member, as the end that connects reports it."""


class MemberServerReport(ServerReport, frozen=True, kw_only=True, gc=False, tag="aggregate-served", tag_field="kind"):
    """Report of a member's listening end."""


def member_run(run: ThroughputRun) -> MemberRun:
    """The result of a throughput test as that of a member."""
    return MemberRun(**_fields(run))


def member_server_report(report: ServerReport) -> MemberServerReport:
    """The report of a listening end as that of a member's."""
    return MemberServerReport(**_fields(report))


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
