"""Messages of a member of an aggregate test, which `monitor.archive.aggregates` adds up."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.transfers.slot import TransferSlot
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec


class AggregateSlot(TransferSlot, frozen=True, kw_only=True, tag="aggregate", tag_field="kind"):
    """The slot of a member. The slots of all members of a test begin and end at the same times."""

    spec: ThroughputSpec


class MemberRun(ThroughputRun, frozen=True, kw_only=True, gc=False, tag="aggregate", tag_field="kind"):
    """Result of a member, reported by the connecting end."""


class MemberServerReport(ServerReport, frozen=True, kw_only=True, gc=False, tag="aggregate-served", tag_field="kind"):
    """Report of a member's listening end."""


def member_run(run: ThroughputRun) -> MemberRun:
    return MemberRun(**_fields(run))


def member_server_report(report: ServerReport) -> MemberServerReport:
    return MemberServerReport(**_fields(report))


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
