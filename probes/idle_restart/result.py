"""The result of two transfers with a pause, and its conclusion in words."""

from __future__ import annotations

from dataclasses import dataclass

SETTING = "net.ipv4.tcp_slow_start_after_idle"
# Minimum share of the window before the pause for a kept window.
KEPT_RATIO = 0.75


@dataclass(frozen=True, slots=True)
class IdleRestart:
    """Result of two transfers; windows are in segments."""

    before_bps: float
    is_steady: bool
    cwnd_before: int
    cwnd_after: int
    timeout_s: float
    rtt_ms: float
    pause_s: float
    duration_s: float
    rise_s: float | None  # first transfer's time from its start to its rate
    back_s: float | None  # time of the second transfer to the first's rate; None if never
    setting: str | None  # the sender's sysctl; None if unknown
    sent_bytes: int | None = None

    @property
    def restarted(self) -> bool | None:
        """Whether the pause reduced the window; None if unknown."""
        if not self.is_steady or self.pause_s <= self.timeout_s:
            return None
        return self.cwnd_after < KEPT_RATIO * self.cwnd_before


def sentence(result: IdleRestart) -> str:
    if result.pause_s <= result.timeout_s:
        return (
            f"Cannot tell: the pause of {result.pause_s:g} s is no longer than the retransmission timeout,"
            f" {result.timeout_s:.2f} s; give a longer --pause-s"
        )
    if not result.is_steady:
        return "Cannot tell: the rate was not steady before the pause; give a longer --duration-s"
    windows = f"the congestion window was {result.cwnd_before} segments before the pause of {result.pause_s:g} s"
    back = (
        f"the rate was not back within {result.duration_s:g} s"
        if result.back_s is None
        else f"the rate was back after {result.back_s:.2f} s, {result.back_s / result.rtt_ms * 1e3:.1f} RTTs"
    )
    if not result.restarted:
        return f"No slow start after idle: {windows} and {result.cwnd_after} after it; {back}"
    advice = (
        f"; for transfers with pauses set {SETTING} to 0 at the sender" if result.setting not in ("0", None) else ""
    )
    return f"Slow start after idle: {windows} and {result.cwnd_after} after it; {back}{advice}"
