"""Read RTT series with hand-labelled changes in the format of W. Shao et al. (arXiv 1709.04819).

Head `epoch;rtt;cp`, then UTC time (`2016-10-13 01:48:56` or `14/10/2016 21:17`), RTT in ms (0 or less: lost), and 1 on
the first sample of a new segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

HEAD = "epoch;rtt;cp"


class UnreadableSeriesError(ValueError):
    """A line is not in the format; the message has its number."""


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """Samples in order."""

    measured_at: tuple[datetime, ...]
    rtts_ms: NDArray[np.float64]  # NaN where the packet was lost
    changed_at: NDArray[np.int64]  # index of the first sample after each change


def read(lines: Iterable[str]) -> LabelledSeries:
    """Read a series; any line ending is accepted, empty lines are skipped. Raises `UnreadableSeriesError`."""
    samples = list(_samples(lines))
    rtts_ms = np.array([rtt_ms for _, rtt_ms, _ in samples], dtype=np.float64)
    rtts_ms[rtts_ms <= 0.0] = np.nan
    changed = np.array([change for _, _, change in samples], dtype=bool)
    return LabelledSeries(tuple(at for at, _, _ in samples), rtts_ms, np.flatnonzero(changed))


def _samples(lines: Iterable[str]) -> Iterator[tuple[datetime, float, bool]]:
    numbered = ((number, line.strip("\ufeff \t\r\n")) for number, line in enumerate(lines, start=1))
    filled = ((number, line) for number, line in numbered if line)
    number, head = next(filled, (1, ""))
    if head != HEAD:
        raise UnreadableSeriesError(f'line {number}: "{head[:40]}" is not the head "{HEAD}"')
    for number, line in filled:
        try:
            yield _sample(line)
        except ValueError as error:
            raise UnreadableSeriesError(f'line {number}: "{line[:60]}" is not time;rtt;cp ({error})') from error


def _sample(line: str) -> tuple[datetime, float, bool]:
    at, rtt_ms, change = line.split(";")
    if change not in ("0", "1"):
        raise ValueError(f"cp is {change!r}; write 0 or 1")
    return _time(at), float(rtt_ms.replace(",", ".")), change == "1"


def _time(text: str) -> datetime:
    if "/" in text:
        return datetime.strptime(text, "%d/%m/%Y %H:%M").replace(tzinfo=UTC)
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
