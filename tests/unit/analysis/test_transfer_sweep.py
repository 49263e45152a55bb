"""The knee of a grid of tests: located where published, related to the path, never in a failed cell."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.sweeps import sweet_spot
from monitor.analysis.sweeps.sweet_spot import SettingResult, SweepSetting, knee_of, knees, lacking, sentences
from tests.facts import lacks

KIB, MIB = 2**10, 2**20


def grid(rate_of, windows, streams, **setting):
    return [
        SettingResult(SweepSetting.create(number, window, **setting), rate_of(number, window), "measured")
        for number, window in itertools.product(streams, windows)
    ]


def of_path(capacity_bps, rtt_ms):
    """One window per RTT for each stream, up to the capacity (RFC 6349, section 3.3.1)."""
    return lambda streams, window: min(capacity_bps, streams * window * 8 / (rtt_ms / 1000))


def test_slac_to_in2p3_has_its_knee_at_two_megabytes():
    """Published: 175 ms, 80 to 100 Mbit/s; about 2.2 MB is the best window of a single stream, window × streams of
    2,048 KB gave 70 to 80 Mbit/s (Matthews and Cottrell 2001)."""
    windows = [64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB]

    knee = knee_of(grid(of_path(100e6, 175.0), windows, [1, 2, 8]), 175.0)

    assert knee.knee.setting == SweepSetting.create(1, 2 * MIB)
    assert knee.bdp_bytes == pytest.approx(2.19e6, rel=0.01)
    assert knee.over_bdp == pytest.approx(0.96, abs=0.01)


def test_without_large_windows_the_knee_has_more_streams():
    knee = knee_of(grid(of_path(100e6, 175.0), [64 * KIB, 256 * KIB], [1, 4, 8, 16, 32]), 175.0)

    assert knee.knee.setting == SweepSetting.create(8, 256 * KIB)


@pytest.mark.parametrize("turn", [0, 1, 2, 3], ids=str)
def test_the_cheapest_of_equally_fast_cells_wins_in_any_order(turn):
    cells = grid(of_path(50e6, 100.0), [256 * KIB, MIB], [1, 4])

    knee = knee_of(cells[turn:] + cells[:turn], 100.0)

    assert knee.best is knee.knee
    assert knee.best.setting == SweepSetting.create(1, MIB)


def test_a_failed_cell_is_not_a_slow_cell():
    cells = [
        SettingResult(SweepSetting.create(1, MIB), None, "busy"),
        SettingResult(SweepSetting.create(1, 2 * MIB), 90e6, "measured"),
        SettingResult(SweepSetting.create(2, MIB), None, None),
        SettingResult(SweepSetting.create(2, 2 * MIB), None, "busy"),
    ]

    assert knee_of(cells, 10.0).knee is cells[1]
    assert lacking(cells).startswith("3 of 4 cells")
    assert lacks(lacking(cells), "no result", "(2 busy", " 1 not run yet", "elsewhere") == []
    assert lacking(cells[1:2]) is None


def test_a_grid_without_a_measured_cell_has_no_knee():
    assert knee_of([SettingResult(SweepSetting.create(1, MIB), None, "refused")], 10.0) is None
    assert knees([], None) == {}


def test_each_plane_has_its_own_knee_and_the_fastest_is_first():
    cubic = grid(of_path(50e6, 100.0), [MIB], [1, 2], control="cubic")
    bbr = grid(of_path(120e6, 100.0), [MIB], [1, 2], control="bbr")

    sweet_spots = knees([*cubic, *bbr], 100.0)

    assert list(sweet_spots) == [("bbr", 0, 0), ("cubic", 0, 0)]
    assert [knee.knee.setting.streams for knee in sweet_spots.values()] == [2, 1]


@pytest.mark.parametrize(("streams", "at_edge"), [([1, 2], True), ([1, 2, 8], True), ([1], False)])
def test_a_best_cell_at_the_edge_of_the_grid_is_reported(streams, at_edge):
    knee = knee_of(grid(lambda number, window: 1e6 * number, [MIB], streams), None)

    assert knee.best_at_edge == at_edge


def test_the_default_window_is_not_compared():
    knee = knee_of([SettingResult(SweepSetting.create(1), 90e6, "measured")], 100.0)

    assert knee.over_bdp is None
    spot, window = sentences(knee, 100.0)
    assert lacks(spot, "Sweet spot", " 1 stream ", "default window", " 90 Mbit/s") == []
    assert lacks(window, "default", "bandwidth-delay product", " 1.12 MB", "(90 Mbit/s × 100.0 ms)") == []
    assert "times" not in window


def test_the_sentences_name_knee_best_and_product():
    cells = [
        SettingResult(SweepSetting.create(1, MIB), 40e6, "measured"),
        SettingResult(SweepSetting.create(1, 2 * MIB), 85e6, "measured"),
        SettingResult(SweepSetting.create(2, 2 * MIB), 90e6, "measured"),
        SettingResult(SweepSetting.create(2, MIB), 80e6, "measured"),
        SettingResult(SweepSetting.create(4, 256 * KIB), 50e6, "measured"),
    ]

    # 90 Mbit/s × 175 ms / 8 = 1.97 MB; 2 MiB are 2.097 MB.
    spot, window = sentences(knee_of(cells, 175.0), 175.0)
    best = ("best", "(2 streams", " 2 MiB", " 90 Mbit/s")
    assert lacks(spot, "Sweet spot", " 1 stream ", " 2 MiB", " 85 Mbit/s", "within 10%", *best) == []
    product = (" 1.1 times the bandwidth-delay product", " 1.97 MB", "(90 Mbit/s × 175.0 ms)")
    assert lacks(window, "total window", " 2 MiB", *product, "as much as the path") == []


@pytest.mark.parametrize(("window", "at_edge"), [(128 * KIB, True), (512 * KIB, False)])
def test_a_window_larger_than_the_path_is_not_an_edge(window, at_edge):
    """10 Mbit/s × 120 ms are 150 kB: 128 KiB may be too small, 512 KiB cannot be."""
    knee = knee_of(grid(of_path(10e6, 120.0), [32 * KIB, window], [1]), 120.0)

    assert knee.best.setting.window_bytes == window
    assert knee.best_at_edge == at_edge
    assert ("edge of the grid" in sentences(knee, 120.0)[-1]) == at_edge


@pytest.mark.parametrize(
    ("window_bytes", "label"),
    [(65536, "64 KiB"), (MIB, "1 MiB"), (1_572_864, "1.5 MiB"), (2**30, "1 GiB"), (100_000, "100 kB")],
)
def test_windows_are_labelled_as_requested(window_bytes, label):
    assert sweet_spot.window_label(window_bytes) == label


RATES = st.one_of(st.none(), st.floats(1e3, 1e11))


@given(st.lists(RATES, min_size=12, max_size=12), st.randoms())
def test_the_knee_equals_brute_force(rates, random):
    settings = [SweepSetting.create(streams, window) for streams in (1, 2, 4) for window in (KIB, MIB, 2 * MIB, None)]
    cells = [
        SettingResult(setting, rate, "measured" if rate else "busy")
        for setting, rate in zip(settings, rates, strict=True)
    ]
    random.shuffle(cells)

    knee = knee_of(cells, 20.0)

    measured_rates = [rate for rate in rates if rate]
    first = next(
        (setting for setting, rate in zip(settings, rates, strict=True) if rate and rate >= 0.9 * max(measured_rates)),
        None,
    )
    assert (knee.knee.setting if knee else None) == first
