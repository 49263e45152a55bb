"""The time to move a number of bytes, and the settings that fill the capacity."""

from __future__ import annotations

import io
import re

import pytest
from django.core.management import CommandError, call_command

from monitor.analysis.tcp import FigureError, Loss, Rtt, Sign, TransferSettings, estimate
from monitor.analysis.tcp.moving import moving_time, moving_words, parse_size
from tests.facts import lacks

WINDOW_BOUND = TransferSettings(window_bytes=1_000_000, capacity_bps=1e9)
RTT, NO_LOSS = Rtt(100.0), Loss(0.0)


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("5TB", 5e12), ("300 GB", 3e11), ("1.5TiB", 1.5 * 2**40), ("10kb", 1e4), ("7", 7)]
)
def test_sizes_are_read_with_their_units(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "TB", "-5TB", "5 apples", "5i", "1e300", "0"])
def test_other_sizes_are_refused(text):
    with pytest.raises(FigureError, match="5TB"):
        parse_size(text)


def test_the_time_is_that_of_the_rate():
    """A window of 1 MB each 100 ms is 80 Mbit/s: 1 TB takes 100,000 s."""
    answer = estimate(RTT, NO_LOSS, WINDOW_BOUND)
    time = moving_time(1e12, answer)

    assert time is not None
    assert (time.seconds, time.sign) == (pytest.approx(100_000), Sign.ABOUT)
    assert time.least_s <= time.seconds <= time.most_s


def test_a_window_bound_transfer_names_the_buffers_and_the_streams():
    """1 Gbit/s × 0.1 s are 12.5 MB; at 80 Mbit/s a stream, 13 streams fill it."""
    words = moving_words(1e12, estimate(RTT, NO_LOSS, WINDOW_BOUND), RTT, WINDOW_BOUND)

    assert (
        lacks(" ".join(words), "1 TB: about 27.8 h", "limited by window", "12,500,000", "25000000", "13 parallel") == []
    )
    assert "2.2 h at the capacity" in " ".join(words)


def test_a_full_path_has_nothing_to_set():
    full = TransferSettings(window_bytes=1e9, capacity_bps=1e8)

    assert "neither windows nor streams" in moving_words(1e12, estimate(RTT, NO_LOSS, full), RTT, full)[1]


def test_the_command_prints_the_time_and_refuses_other_sizes():
    figures = ["--rtt-ms", "100", "--loss-ratio", "0", "--mss-bytes", "1460", "--window-bytes", "1000000"]
    out = io.StringIO()
    call_command("estimate", *figures, "--capacity-mbps", "1000", "--move", "1TB", stdout=out)
    printed = re.sub(r"\s+", " ", out.getvalue())

    assert "1 TB: about 27.8 h" in printed
    with pytest.raises(CommandError, match="--move"):
        call_command("estimate", *figures, "--move", "5 apples", stdout=io.StringIO())
