"""The parts of the reproductions that need no lab: parsing samples, selecting valid runs, writing tables."""

from __future__ import annotations

import math
import random
import re
import statistics

import pytest

from probes.lab.emulated_path import PathCounters
from tests.facts import lacks
from tests.reproduce import atm, in2p3, loss, nersc
from tests.reproduce.__main__ import REPRODUCTIONS
from tests.reproduce.computed import COMPUTED, atm_storage, land_speed, recovery
from tests.reproduce.ends import Plan, Sample, StreamInfo
from tests.reproduce.table import DOCUMENT, Table, placed
from tests.reproduce.transfer import Measured, Run, lacking

BLOCK_BYTES = nersc.BLOCK_BYTES // nersc.SCALE


def sample(at_s: float, acked_bytes: int, resent: int = 0, window_segments: int = 100) -> Sample:
    return Sample(at_s, [StreamInfo(acked_bytes, resent, window_segments, 100_000, 0, 0, 0)])


def measured(samples: list[Sample], **fields: float) -> Measured:
    values = {"late_ms": 0.1, "waited_ratio": 0.0, "busy_ratio": 1.0, "held_ratio": 0.0, **fields}
    return Measured(
        10.0, 10**6, 8e5, PathCounters(received=1000, dropped_loss=10), PathCounters(), samples=samples, **values
    )  # type: ignore[arg-type]


def test_retransmits_within_a_second_are_one_loss_event() -> None:
    counts = [(0.0, 0, 0), (1.0, 1000, 3), (1.5, 1500, 5), (4.0, 9000, 5), (4.2, 9100, 6), (6.0, 9900, 6)]

    loss_events = nersc.events(measured([sample(*count) for count in counts]))

    assert loss_events == [nersc.Event(1.0, 5, 1000.0), nersc.Event(4.2, 1, 8100.0)]


def test_a_transfer_without_loss_has_no_event() -> None:
    assert nersc.events(measured([sample(number, number * 1000) for number in range(5)])) == []


def test_a_block_starts_after_complete_blocks_and_a_pause() -> None:
    # The pause of 0.2 s is at a block boundary; the flat part of 0.3 s before it is a recovery in the middle of the
    # block.
    half, whole = BLOCK_BYTES // 2, BLOCK_BYTES + 1
    at = [(0.0, 5000), (0.1, half), (0.2, half), (0.4, half), (0.5, whole), (0.6, whole + 1), (0.7, whole + 1)]
    after = [(0.71, whole + 20_000), (0.8, whole + 40_000)]

    blocks_seen = nersc.blocks(measured([sample(at_s, acked, window_segments=60) for at_s, acked in at + after]))

    assert [(round(block.at_s, 3), round(block.pause_s, 3), block.burst_bytes) for block in blocks_seen] == [
        (0.608, 0.21, 60 * 289)
    ]


def test_the_sweet_spot_has_fewest_streams_then_smallest_window() -> None:
    rates_mbps = {(1, 512): 24.0, (1, 2048): 89.0, (1, 4096): 91.0, (4, 1024): 92.0, (4, 2048): 98.0}

    assert in2p3.knee(rates_mbps) == (1, 2048)


@pytest.mark.parametrize(
    ("fields", "backlogged", "facts"),
    [
        ({}, True, ()),
        ({"late_ms": 1.2}, True, ()),
        ({"late_ms": 1.3}, True, ("relay", " 1.30 ms late", "average")),
        ({"waited_ratio": 0.06}, True, ("relay waited", " 6.0% of the time", "processor")),
        ({"busy_ratio": 0.9}, True, ("sender", "something to send", "only 90.0% of the time")),
        ({"busy_ratio": 0.9, "held_ratio": 0.5}, False, ()),
        ({"held_ratio": 0.03}, True, ("buffer held the sender", " 3.0% of the time")),
    ],
)
def test_a_run_counts_only_if_the_machine_kept_up_with_the_path(
    fields: dict[str, float], backlogged: bool, facts: tuple[str, ...]
) -> None:
    run = Run(50.0, {}, Plan(10.0), 2.0, backlogged=backlogged)

    reason = lacking(measured([sample(0.0, 0)], **fields), run)

    assert bool(reason) is bool(facts)
    assert lacks(reason, *facts) == []


@pytest.mark.parametrize("loss_ratio", loss.LOSS_RATIOS)
@pytest.mark.parametrize("rtt_ms", loss.ROUND_TRIPS_MS)
def test_a_cell_runs_until_it_has_enough_losses(loss_ratio: float, rtt_ms: float) -> None:
    run = loss.Cell(loss_ratio, rtt_ms, "reno").run

    # By hand, without the model's code: 1.2247 / sqrt(p) segments per RTT, of which a fraction p is lost.
    losses_s = run.plan.streams * 1.2247 * math.sqrt(loss_ratio) / (rtt_ms / 1000)
    assert (run.plan.duration_s - run.start_up_s) * losses_s > 99
    assert run.plan.streams == 1 or run.plan.streams * 1.2247 / math.sqrt(loss_ratio) / rtt_ms * 1448 * 8 / 1000 <= 20


@pytest.mark.parametrize("loss_ratio", loss.LOSS_RATIOS)
def test_the_sampling_error_matches_a_simulated_reno_flow(loss_ratio: float) -> None:
    rng, losses = random.Random(1), 100

    ratios = [simulated_ratio(rng, loss_ratio, losses) for _ in range(300)]

    # Mathis (1997) has 1.31 instead of 1.22 for independent losses: 7% more.
    assert statistics.mean(ratios) == pytest.approx(1.07, abs=0.03)
    assert statistics.stdev(ratios) * math.sqrt(losses) == pytest.approx(loss.SAMPLING_ERROR, abs=0.06)


def simulated_ratio(rng: random.Random, loss_ratio: float, losses: int) -> float:
    """Rate divided by Mathis at the measured loss, for a window that grows by a segment per RTT and is halved at each
    loss."""
    window, packets, rounds, lost, cycles = 1.22 / math.sqrt(loss_ratio), 0, 0.0, 0, 0
    while lost < losses:
        cycles += 1
        if cycles == 20:
            packets, rounds, lost = 0, 0.0, 0
        gap = math.ceil(math.log(1.0 - rng.random()) / math.log1p(-loss_ratio))
        # The window grows by 1/window with each segment, so its square by 2.
        largest = math.sqrt(window * window + 2 * gap)
        in_flight = int(largest)
        packets += gap + in_flight
        rounds += largest - window + 1
        lost += 1 + sum(rng.random() < loss_ratio for _ in range(in_flight))
        window = largest / 2
    return packets / rounds / (math.sqrt(1.5) / math.sqrt(lost / packets))


def test_the_policed_rates_are_shares_of_the_contract_in_cells() -> None:
    by_cells, by_packets = atm.run(0.99, 48).path, atm.run(0.99, 0).path

    # 23.42 Mbit/s of cells of 53 bytes are 55,236 a second; 32 carry a packet of 1,500 bytes.
    packets_s = 55_236 / 32
    assert by_cells["policer_mbps"] == pytest.approx(55_236 * 48 * 8 / 1e6, rel=1e-4)
    assert by_packets["policer_mbps"] == pytest.approx(packets_s * 1500 * 8 / 1e6, rel=1e-4)
    assert by_cells["rate_mbps"] == pytest.approx(0.99 * packets_s * 1500 * 8 / 1e6, rel=1e-4)


def test_a_table_replaces_the_text_between_its_markers() -> None:
    text = "a\n<!-- loss -->\nold\n<!-- /loss -->\nb\n<!-- atm -->\nkept\n<!-- /atm -->\n"

    once = placed(text, "loss", "new\n")

    assert once == "a\n<!-- loss -->\n\nnew\n\n<!-- /loss -->\nb\n<!-- atm -->\nkept\n<!-- /atm -->\n"
    assert placed(once, "loss", "new\n") == once


def test_a_document_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for loss") as raised:
        placed("<!-- atm -->\n<!-- /atm -->\n", "loss", "new\n")
    assert lacks(str(raised.value), "<!-- loss -->", "<!-- /loss -->") == []


def test_a_table_is_markdown_with_the_machine_and_no_date() -> None:
    lines = Table(("a", "b"), [("1", "2")]).markdown().splitlines()

    assert lines[:3] == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
    assert re.fullmatch(r"\*Made on \d+ processors \(.+\), Linux \d+\.\d+, with other work on them\.\*", lines[4])


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_its_table_in_the_document(name: str) -> None:
    text = DOCUMENT.read_text()

    match = re.search(rf"<!-- {name} -->\n\n((?:\|.*\|\n)+)\n\*Made on .+\*\n\n<!-- /{name} -->", text)

    assert match is not None
    assert len(match[1].splitlines()) > 3
    assert f"`python -m tests.reproduce {name}`" in text


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_tables_of_the_document_are_those_of_the_models(name: str) -> None:
    assert f"<!-- {name} -->\n\n{COMPUTED[name]().lines()}\n\n<!-- /{name} -->" in DOCUMENT.read_text()


def test_slow_start_and_recovery_over_the_atlantic() -> None:
    """By hand: 1 Gbit/s × 180 ms = 22.5 MB = 15,539 segments of 1,448 bytes. From 2 segments 12.9 doublings: 13 RTTs;
    22.1 times 1.5: 23 RTTs. Reno regains half of the window in 7,769 RTTs: 1,399 s, 23.3 minutes."""
    start = next(row for row in land_speed().rows if row[0].startswith("slow start"))
    assert start[2].startswith(f"{13 * 0.18:.1f}; {23 * 0.18:.1f}")
    by_sender = {row[:3]: row[3] for row in recovery().rows}
    assert by_sender["Reno, an ACK for each", "1,500", "1"] == "23.3 min"
    assert by_sender["Reno, an ACK for each", "1,500", "10"] == "2.3 min"
    assert by_sender["Reno, delayed ACKs", "1,500", "1"] == "46.6 min"


def test_contract_of_cells_as_tcp() -> None:
    """By hand: 9,180 + 16 bytes are 192 cells of 53 bytes; 23.42 Mbit/s × 9,128 / 10,176 = 21.0 Mbit/s."""
    rows = {row[0]: row for row in atm_storage().rows}
    assert rows["9,180"][1] == "192"
    assert rows["9,180"][3] == "21.0"


def test_the_time_of_a_block_is_called_a_measurement() -> None:
    table = atm_storage()
    [column] = [name for name, value in zip(table.columns, table.rows[0], strict=True) if value == "25"]
    assert "measured" in column
