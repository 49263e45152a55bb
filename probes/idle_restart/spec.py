"""Messages of a test of slow start after idle: parameters (`IdleRestartSpec`) and result (`IdleRestartRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.bounds import Amount, Count, LargeCount, Moment, Seconds, ShortText, Text
from probes.contract import Outcome
from probes.idle_restart.result import IdleRestart
from probes.transfers.slot import TransferSlot

PORT = 5202
DURATION_S, PAUSE_S = 5.0, 5.0
LONGEST_S, LONGEST_PAUSE_S = 60.0, 600.0
# Maximum time until the data of the first transfer are acknowledged.
DRAIN_S = 10.0
# Time of a slot beyond its transfers: connection setup and clock differences.
SLOT_MARGIN_S = 10.0


class IdleRestartSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Two transfers of `duration_s` to `address` and `port`, with a pause of `pause_s` between them."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = PORT
    duration_s: float = DURATION_S
    pause_s: float = PAUSE_S
    one_time_key: str | None = None  # secret shared by the two ends

    @property
    def length_s(self) -> float:
        return 2.0 * self.duration_s

    @property
    def rate_bps(self) -> int | None:
        return None


class IdleRestartSlot(TransferSlot, frozen=True, kw_only=True, tag="idle-restart", tag_field="kind"):
    """A planned execution. The client is the path's source: it sends, and reports."""

    spec: IdleRestartSpec


class IdleRestartRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="idle-restart", tag_field="kind"):
    """Result of a test of slow start after idle.

    Figures as in `probes.idle_restart.result.IdleRestart`, None unless `measured`.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    before_bps: Amount | None = None
    is_steady: bool | None = None
    cwnd_before: Count | None = None
    cwnd_after: Count | None = None
    timeout_s: Seconds | None = None
    rtt_ms: Amount | None = None
    pause_s: Seconds | None = None
    duration_s: Seconds | None = None
    rise_s: Seconds | None = None
    back_s: Seconds | None = None
    setting: Text | None = None
    sent_bytes: LargeCount | None = None
    detail: Text | None = None

    @property
    def figures(self) -> IdleRestart | None:
        if self.before_bps is None:
            return None
        fields = {name: getattr(self, name) for name in IdleRestart.__dataclass_fields__}
        return IdleRestart(**fields)


def not_measured(spec: IdleRestartSpec, started_at: datetime, outcome: Outcome, detail: str) -> IdleRestartRun:
    return IdleRestartRun(
        target=spec.address, address=None, family=spec.family, started_at=started_at, outcome=outcome, detail=detail
    )


def slot_length_s(duration_s: float, pause_s: float) -> int:
    return round(2.0 * duration_s + pause_s + DRAIN_S + SLOT_MARGIN_S)
