"""Settings of transfers in the lab whose limit is known, because it was set: `python -m tests.diagnosis.collect` runs
them with the real iperf3, `python -m tests.diagnosis.score` compares the verdicts with them.

`truth` of a setting is its limit. Every second setting of each group is for tuning, the others are for the score.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec

FULL_AT = 0.55
"""Share of the link's rate that random loss permits by Mathis' formula, below which the loss is the limit."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path, the hosts and the client's options. `others` are flows of the same path beside the measured one, with
    `other_mbps` of datagrams at that rate."""

    name: str
    truth: str
    rate_mbps: float
    rtt_ms: float
    control: str = "cubic"
    queue_ms: float = 50.0
    loss_ratio: float = 0.0
    policer_mbps: float | None = None
    reorder_ratio: float = 0.0
    jitter_ms: float = 0.0
    window: str | None = None
    receive_buffer: int | None = None
    client: tuple[str, ...] = ()
    streams: int = 1
    reverse: bool = False
    bidir: bool = False
    others: int = 0
    other_mbps: float | None = None
    duration_s: int = 10

    @property
    def is_for_tuning(self) -> bool:
        return int(self.name.rsplit("-", 1)[1]) % 2 == 0


def settings() -> list[Setting]:
    """All settings."""
    return [
        *_full(),
        *_shares(),
        *_losses(),
        *_windows(),
        *_applications(),
        *_policers(),
        *_both_ways(),
        *_others(),
        *_noisy(),
        *_beside_datagrams(),
        *_long(),
    ]


def _full() -> Iterator[Setting]:
    """A single flow, or a few streams of one, fills the link."""
    queues = itertools.cycle((8.0, 25.0, 60.0, 120.0, 250.0))
    rates = itertools.cycle((5.0, 12.0, 24.0, 8.0, 40.0, 3.0, 16.0))
    rtts = itertools.cycle((8.0, 30.0, 15.0, 60.0, 120.0, 45.0))
    controls = itertools.cycle(("cubic", "reno", "cubic", "bbr"))
    for number in range(48):
        yield Setting(
            name=f"full-{number}",
            truth="full",
            rate_mbps=next(rates),
            rtt_ms=next(rtts),
            queue_ms=next(queues),
            control=next(controls),
            streams=4 if number % 8 in (3, 6) else 1,
            reverse=number % 6 in (2, 5),
            duration_s=(10, 5, 10, 20, 4, 10, 10)[number % 7],
        )


def _shares() -> Iterator[Setting]:
    """Other flows have a part of the link."""
    rates, rtts = itertools.cycle((10.0, 20.0, 30.0)), itertools.cycle((10.0, 40.0, 80.0, 25.0))
    queues = itertools.cycle((20.0, 50.0, 100.0, 200.0, 30.0))
    controls = itertools.cycle(("cubic", "reno", "bbr", "cubic"))
    for number in range(24):
        yield Setting(
            name=f"share-{number}",
            truth="share",
            rate_mbps=next(rates),
            rtt_ms=next(rtts),
            queue_ms=next(queues),
            control=next(controls),
            others=(1, 1, 3)[number % 3],
            reverse=number % 5 == 4,
        )


def _losses() -> Iterator[Setting]:
    """Random loss on a link that it keeps from filling; BBR fills it all the same."""
    losses = itertools.cycle((0.001, 0.003, 0.01, 0.0005, 0.02, 0.005))
    rtts = itertools.cycle((40.0, 80.0, 20.0, 120.0, 60.0))
    controls = itertools.cycle(("cubic", "reno", "cubic", "reno", "bbr"))
    number = 0
    while number < 40:
        loss_ratio, rtt_ms, control = next(losses), next(rtts), next(controls)
        permitted_mbps = 1448 * 8 / (rtt_ms * 1000.0) * 1.22 / math.sqrt(loss_ratio)
        rate_mbps = 12.0 if control == "bbr" else max(8.0, min(50.0, permitted_mbps * (2.5, 4.0)[number % 2]))
        if control != "bbr" and permitted_mbps > FULL_AT * rate_mbps:
            continue
        yield Setting(
            name=f"loss-{number}",
            truth="full" if control == "bbr" else "loss",
            rate_mbps=rate_mbps,
            rtt_ms=rtt_ms,
            loss_ratio=loss_ratio,
            control=control,
            queue_ms=(20.0, 50.0, 100.0)[number % 3],
            reverse=number % 5 == 2,
            streams=2 if number % 9 == 4 else 1,
            duration_s=(10, 10, 6, 20)[number % 4],
        )
        number += 1


def _windows() -> Iterator[Setting]:
    """The socket buffers of both ends (`-w`), or the receiver's largest, hold less than the path needs."""
    rtts, buffers = itertools.cycle((60.0, 120.0, 40.0, 90.0)), itertools.cycle((64, 128, 96, 192, 256))
    for number in range(24):
        rtt_ms, kilobytes = next(rtts), next(buffers)
        yield Setting(
            name=f"window-{number}",
            truth="window",
            rate_mbps=min(50.0, max(10.0, 3.0 * kilobytes * 8 / rtt_ms)),
            rtt_ms=rtt_ms,
            control=("cubic", "reno", "bbr", "cubic")[number % 4],
            window=f"{kilobytes}K" if number % 4 < 2 else None,
            receive_buffer=None if number % 4 < 2 else kilobytes * 1024,
            reverse=number % 6 == 3,
            streams=2 if number % 7 == 5 else 1,
            duration_s=(10, 5, 10)[number % 3],
        )


def _applications() -> Iterator[Setting]:
    """The sender writes at a rate below the link's."""
    rtts, rates = itertools.cycle((20.0, 60.0, 100.0)), itertools.cycle(("4M", "1M", "9M", "2500K"))
    for number in range(16):
        yield Setting(
            name=f"application-{number}",
            truth="application",
            rate_mbps=25.0,
            rtt_ms=next(rtts),
            control=("cubic", "reno", "bbr")[number % 3],
            client=("-b", next(rates)),
            reverse=number % 5 == 3,
            loss_ratio=0.0002 if number % 7 == 6 else 0.0,
        )


def _policers() -> Iterator[Setting]:
    for number in range(10):
        yield Setting(
            name=f"policer-{number}",
            truth="policer",
            rate_mbps=50.0,
            rtt_ms=(20.0, 40.0, 80.0)[number % 3],
            control=("cubic", "reno")[number % 2],
            policer_mbps=(5.0, 10.0, 16.0, 3.0)[number % 4],
        )


def _both_ways() -> Iterator[Setting]:
    """`--bidir`: the path is limited alike in both directions."""
    rtts, queues = itertools.cycle((15.0, 40.0, 80.0)), itertools.cycle((30.0, 60.0, 150.0, 20.0))
    for number in range(18):
        truth = ("full", "full", "loss", "full", "window", "full", "loss", "window", "full")[number % 9]
        yield Setting(
            name=f"bidir-{number}",
            truth=truth,
            rate_mbps=40.0 if truth != "full" else (8.0, 16.0, 24.0)[number % 3],
            rtt_ms=next(rtts) if truth == "full" else 60.0,
            queue_ms=next(queues),
            loss_ratio=0.005 if truth == "loss" else 0.0,
            window="96K" if truth == "window" else None,
            control=("cubic", "reno", "cubic", "bbr")[number % 4] if truth == "full" else "cubic",
            bidir=True,
        )


def _others() -> Iterator[Setting]:
    """Paths whose packets are late or change order."""
    for number in range(12):
        reordered = number % 2 == 0
        yield Setting(
            name=f"{'reordered' if reordered else 'jitter'}-{number // 2}",
            # BBR fills the link all the same.
            truth="reordering" if reordered and number % 3 < 2 else "full",
            rate_mbps=40.0 if reordered else (10.0, 20.0, 6.0)[number % 3],
            rtt_ms=(20.0, 60.0, 40.0)[number % 3],
            queue_ms=80.0,
            reorder_ratio=0.01 if reordered else 0.0,
            jitter_ms=0.0 if reordered else 3.0,
            control=("cubic", "reno", "bbr")[number % 3],
        )


def _noisy() -> Iterator[Setting]:
    """Random loss on a path whose delay varies by itself."""
    for number in range(14):
        rtt_ms, loss_ratio = (20.0, 50.0, 100.0)[number % 3], (0.003, 0.01, 0.001, 0.02)[number % 4]
        permitted_mbps = 1448 * 8 / (rtt_ms * 1000.0) * 1.22 / math.sqrt(loss_ratio)
        yield Setting(
            name=f"noisy-{number}",
            truth="loss",
            rate_mbps=max(6.0, min(50.0, 3.0 * permitted_mbps)),
            rtt_ms=rtt_ms,
            loss_ratio=loss_ratio,
            jitter_ms=(2.0, 4.0, 8.0, 1.0)[number // 2 % 4],
            control=("cubic", "reno")[number % 2],
            reverse=number % 5 == 3,
        )


def _beside_datagrams() -> Iterator[Setting]:
    """A constant stream of datagrams has a part of the link."""
    for number in range(10):
        rate_mbps = (10.0, 24.0, 16.0)[number % 3]
        yield Setting(
            name=f"datagrams-{number}",
            truth="share",
            rate_mbps=rate_mbps,
            rtt_ms=(20.0, 60.0, 35.0, 100.0)[number % 4],
            queue_ms=(40.0, 100.0, 20.0)[number // 2 % 3],
            control=("cubic", "reno", "bbr")[number // 2 % 3],
            others=1,
            other_mbps=rate_mbps * (0.5, 0.3)[number % 2],
        )


def _long() -> Iterator[Setting]:
    """Tests of half a minute and of a few seconds."""
    for number in range(12):
        truth = ("full", "loss", "window")[number % 3]
        yield Setting(
            name=f"long-{number}",
            truth=truth,
            rate_mbps=40.0 if truth != "full" else (12.0, 30.0)[number % 2],
            rtt_ms=(30.0, 90.0)[number // 3 % 2],
            queue_ms=(60.0, 25.0, 150.0)[number % 3],
            loss_ratio=0.002 if truth == "loss" else 0.0,
            window="64K" if truth == "window" else None,
            control=("cubic", "reno")[number // 6],
            streams=(1, 1, 3)[number // 2 % 3] if truth != "window" else 1,
            duration_s=30 if number % 4 < 2 else 6,
        )
