"""Mathis in the lab, on two cells of the table in docs/method/reproduce.md, and the two ends of all reproductions.

The bound of 30% holds on a machine with other work, as rate and loss are counted over the same time, and a run in which
the relay or the sender lacked processor time is not counted but repeated. With 60 losses the sampling error is 2.6%
(one deviation), and 1.0 to 1.1 times the model is expected.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.lab import RunningLab, wait_until
from tests.reproduce.ends import Plan, stream_info
from tests.reproduce.loss import WITHIN, Cell, ratio_to_model
from tests.reproduce.transfer import LAB, Run, measure


@pytest.fixture(scope="module")
def published_path(namespaces_required: None) -> Iterator[RunningLab]:
    with RunningLab(LAB) as lab:
        yield lab


@pytest.mark.parametrize("cell", [Cell(0.01, 50.0, "reno", losses=60), Cell(0.01, 100.0, "reno", True, losses=60)])
def test_reno_gets_the_rate_of_mathis(published_path: RunningLab, cell: Cell) -> None:
    measured = measure(published_path, cell.run, print)

    assert measured.data.dropped_loss > 30
    assert measured.data.dropped_queue == 0
    assert ratio_to_model(cell, measured) == pytest.approx(1.0, abs=WITHIN)
    assert (measured.segments_per_answer < 1.3) == cell.each_ack


def test_after_each_block_the_sender_waits_for_its_answer(published_path: RunningLab) -> None:
    # Ten segments take no time without a rate: an RTT until they are acknowledged, another for the second answer.
    plan = Plan(4.0, block_bytes=14_480, exchanges=2)

    measured = measure(published_path, Run(50.0, {}, plan, 1.0, backlogged=False), print)

    blocks = measured.acked_bytes / 14_481
    assert 0.5 * measured.seconds / 0.1 <= blocks <= measured.seconds / 0.1 + 1


def test_the_kernels_statistics_of_a_stream_are_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sender:
        receiver, _ = listener.accept()
        with receiver:
            reader = threading.Thread(target=lambda: receiver.makefile("rb").read(100_000))
            reader.start()
            before = stream_info(sender)
            sender.sendall(bytes(100_000))
            reader.join()
            wait_until(lambda: stream_info(sender).acked_bytes - before.acked_bytes == 100_000, "all is acknowledged")

    assert before.resent == 0
    assert before.window_segments == 10, "the initial window of RFC 6928"
