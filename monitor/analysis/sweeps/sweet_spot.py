"""Sweet spot of throughput tests over windows and streams: of the settings within 10% of the best the fewest streams,
then the smallest window."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.analysis.tcp import buffer_bytes, wording

# Cells within this share of the best are as good: repeated tests differ by more.
WITHIN = 0.1
MOST_OPTIONS_BYTES = 40
# Ratio of the knee's windows to the bandwidth-delay product that counts as equal.
NEAR_BDP = (0.8, 1.25)


@dataclass(frozen=True, slots=True, order=True)
class SweepSetting:
    """Settings of a cell; an infinite window, "" or 0 is the default of system or tool."""

    control: str
    mss_bytes: int
    block_bytes: int  # of each write
    streams: int
    window_bytes: float  # of each stream

    @classmethod
    def create(
        cls,
        streams: int,
        window_bytes: int | None = None,
        control: str | None = None,
        mss_bytes: int | None = None,
        block_bytes: int | None = None,
    ) -> SweepSetting:
        """Settings as entered; None is the default."""
        window = math.inf if window_bytes is None else window_bytes
        return cls(control or "", mss_bytes or 0, block_bytes or 0, streams, window)

    @property
    def together_bytes(self) -> float | None:
        """The windows of all streams; None where the system chooses."""
        return None if math.isinf(self.window_bytes) else self.streams * self.window_bytes

    @property
    def plane(self) -> Plane:
        return self.control, self.mss_bytes, self.block_bytes

    def __str__(self) -> str:
        streams = f"{self.streams} stream{'' if self.streams == 1 else 's'}"
        return f"{streams} of {window_label(self.window_bytes)}"


# Congestion control, MSS and block size of a grid of windows and streams.
Plane = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class SettingResult:
    setting: SweepSetting
    throughput_bps: float | None = None  # None unless measured
    outcome: str | None = None  # None until it has ended
    segment_bytes: int | None = None  # payload of the segments sent; None if unknown


@dataclass(frozen=True, slots=True)
class Knee:
    """Sweet spot of a plane."""

    best: SettingResult
    knee: SettingResult
    bdp_bytes: float | None  # best rate times idle RTT; None if unknown
    best_at_edge: bool  # most streams, or largest window within the BDP; False for single values

    @property
    def over_bdp(self) -> float | None:
        """The windows at the knee over the bandwidth-delay product."""
        together = self.knee.setting.together_bytes
        return None if together is None or self.bdp_bytes is None else together / self.bdp_bytes


def knee_of(cells: Iterable[SettingResult], rtt_ms: float | None) -> Knee | None:
    """The knee of the cells of a plane; None without a measured cell."""
    everything = list(cells)
    measured = [cell for cell in everything if cell.throughput_bps]
    if not measured:
        return None
    # Where cells are equally fast, as on a full path, prefer the fewest streams and the smallest window.
    best = min(measured, key=lambda cell: (-_rate(cell), *_effort(cell)))
    good = [cell for cell in measured if _rate(cell) >= (1.0 - WITHIN) * _rate(best)]
    bdp_bytes = None if rtt_ms is None else float(buffer_bytes(_rate(best), rtt_ms))
    return Knee(
        best=best,
        knee=min(good, key=_effort),
        bdp_bytes=bdp_bytes,
        best_at_edge=_at_edge(best, everything, bdp_bytes),
    )


def knees(cells: Sequence[SettingResult], rtt_ms: float | None) -> dict[Plane, Knee]:
    """The knee of each plane that has a measured cell, the fastest plane first."""
    planes = dict.fromkeys(cell.setting.plane for cell in cells)
    knees_of = {plane: knee_of([cell for cell in cells if cell.setting.plane == plane], rtt_ms) for plane in planes}
    defined = {plane: knee for plane, knee in knees_of.items() if knee is not None}
    return dict(sorted(defined.items(), key=lambda item: -_rate(item[1].best)))


def sentences(knee: Knee, rtt_ms: float | None) -> list[str]:
    best, spot = knee.best, knee.knee
    lines = [
        f"Sweet spot: {spot.setting}, {wording.rate(spot.throughput_bps)}."
        if spot is best
        else f"Sweet spot: {spot.setting}, {wording.rate(spot.throughput_bps)}, within 10% of the best "
        f"({best.setting}, {wording.rate(best.throughput_bps)})."
    ]
    if knee.bdp_bytes is None or rtt_ms is None:
        lines.append("The RTT is unknown, so the bandwidth-delay product is too.")
    else:
        lines.append(_compared(knee, knee.bdp_bytes, rtt_ms))
    if knee.best_at_edge:
        lines.append("The best is at the edge of the grid: larger windows or more streams may be faster.")
    return lines


def lacking(cells: Iterable[SettingResult]) -> str | None:
    """Cells without a result, as text; None if complete."""
    everything = list(cells)
    others = Counter(
        "not run yet" if cell.outcome is None else cell.outcome.replace("_", " ")
        for cell in everything
        if cell.throughput_bps is None
    )
    if not others:
        return None
    reasons = ", ".join(f"{number} {why}" for why, number in others.most_common())
    missing = f"{sum(others.values())} of {len(everything)} cells have no result ({reasons})"
    return f"{missing}: the sweet spot may be elsewhere."


def segment_remarks(cells: Iterable[SettingResult]) -> list[str]:
    """Requested MSS values without effect on the segments sent. TCP options take up to 40 bytes, 12 with timestamps."""
    sent: dict[int, set[int]] = defaultdict(set)
    for cell in cells:
        mss_bytes, segment_bytes = cell.setting.mss_bytes, cell.segment_bytes
        is_kept = segment_bytes is None or mss_bytes - MOST_OPTIONS_BYTES <= segment_bytes <= mss_bytes
        if mss_bytes and segment_bytes is not None and not is_kept:
            sent[mss_bytes].add(segment_bytes)
    return [
        f"MSS {mss_bytes} was requested, but segments of {' and '.join(map(str, sorted(lengths)))} bytes were sent: the"
        " MTU of an interface or of the path is smaller, or a system on the way changes the MSS."
        for mss_bytes, lengths in sorted(sent.items())
    ]


def plane_label(plane: Plane) -> str:
    """Congestion control, MSS and block size; empty for defaults."""
    control, mss_bytes, block_bytes = plane
    parts = (
        control,
        f"MSS {mss_bytes}" if mss_bytes else "",
        f"writes of {window_label(block_bytes)}" if block_bytes else "",
    )
    return ", ".join(part for part in parts if part)


def window_label(window_bytes: float) -> str:
    """Window as entered: mostly powers of two."""
    if math.isinf(window_bytes):
        return "the default window"
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if window_bytes >= scale and window_bytes * 4 % scale == 0:
            return f"{window_bytes / scale:g} {unit}"
    return wording.size(window_bytes)


def _effort(cell: SettingResult) -> tuple[int, float]:
    return cell.setting.streams, cell.setting.window_bytes


def _at_edge(best: SettingResult, cells: Sequence[SettingResult], bdp_bytes: float | None) -> bool:
    streams = {cell.setting.streams for cell in cells}
    windows = {cell.setting.window_bytes for cell in cells}
    if len(streams) > 1 and best.setting.streams == max(streams):
        return True
    together = best.setting.together_bytes
    if together is None or len(windows) == 1 or best.setting.window_bytes < max(windows):
        return False
    return bdp_bytes is None or together <= NEAR_BDP[1] * bdp_bytes


def _compared(knee: Knee, bdp_bytes: float, rtt_ms: float) -> str:
    product = (
        f"the bandwidth-delay product, {wording.size(bdp_bytes)} "
        f"({wording.rate(knee.best.throughput_bps)} × {figures.milliseconds(rtt_ms)})"
    )
    over, together = knee.over_bdp, knee.knee.setting.together_bytes
    if over is None or together is None:
        return f"The window is the system's default; the path holds {product}."
    windows = f"The total window, {window_label(together)}, is {over:.2g} times {product}"
    if over > NEAR_BDP[1]:
        return f"{windows}: more than the path holds."
    if over < NEAR_BDP[0]:
        return f"{windows}: the system grants more than requested, or the rate is not steady."
    return f"{windows}: as much as the path holds."


def _rate(cell: SettingResult) -> float:
    return cell.throughput_bps or 0.0
