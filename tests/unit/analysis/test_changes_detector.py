"""RTT change detection, on generated series with known changes."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.changes import detector
from monitor.analysis.changes.detector import AFTER, BEFORE, ChangeSeverity
from tests.facts import lacks

WINDOW = BEFORE + AFTER
LOST = math.nan


def quiet_path(samples: int, base_ms: float = 170.0, seed: int = 1) -> np.ndarray:
    """A floor with exponential noise of 0.2 ms and a spike of some milliseconds in one of thirty samples."""
    random = np.random.default_rng(seed)
    return base_ms + random.exponential(0.2, samples) + (random.random(samples) < 1 / 30) * random.gamma(2, 5, samples)


def places(rtts_ms: np.ndarray) -> list[int]:
    return [change.at for change in detector.changes(rtts_ms)]


@pytest.mark.parametrize("step_ms", [5.0, -5.0, 40.0])
def test_a_step_is_located_and_reported_13_samples_later(step_ms):
    rtts_ms = quiet_path(400)
    rtts_ms[200:] += step_ms

    detected = detector.changes(rtts_ms)

    assert [(change.at, change.raised_at) for change in detected] == [(200, 213)]
    assert detected[0].after_ms - detected[0].before_ms == pytest.approx(step_ms, abs=0.5)
    assert detected[0].shift_ms == pytest.approx(step_ms, abs=0.5)


def test_a_quiet_path_with_spikes_has_no_change():
    assert places(quiet_path(20_000)) == []


def test_congestion_is_detected_at_its_onset_and_its_end():
    """Most samples are queued while it lasts; some still have the minimum RTT."""
    rtts_ms = quiet_path(400)
    random = np.random.default_rng(2)
    rtts_ms[150:200] += np.where(random.random(50) < 0.85, random.uniform(5, 40, 50), 0.0)
    rtts_ms[[150, 199]] = 190.0

    positions = places(rtts_ms)

    assert any(abs(at - 150) <= 2 for at in positions)
    assert any(abs(at - 200) <= 2 for at in positions)


def test_an_episode_shorter_than_the_windows_is_detected():
    rtts_ms = quiet_path(400)
    rtts_ms[200:210] += 10.0

    assert places(rtts_ms) == [200, 210]


def test_a_single_spike_is_not_a_change_however_high():
    rtts_ms = np.full(200, 20.0)
    rtts_ms[100] = 900.0

    assert places(rtts_ms) == []


def test_alternating_milliseconds_rarely_notice_and_never_warn():
    """Quantised RTTs have stretches without any deviation."""
    detected = detector.changes(np.round(quiet_path(5000, base_ms=30.3)))

    assert len(detected) <= 5
    assert {change.severity for change in detected} <= {ChangeSeverity.NOTICE}


def test_lost_samples_are_skipped_and_indices_count_them():
    rtts_ms = quiet_path(400)
    rtts_ms[200:] += 5.0
    rtts_ms[[50, 198, 203, 204]] = LOST

    detected = detector.changes(rtts_ms)

    assert [(change.at, change.raised_at) for change in detected] == [(200, 215)]


@pytest.mark.parametrize("samples", [0, 1, WINDOW - 1])
def test_too_few_samples_have_no_change(samples):
    rtts_ms = np.concatenate([np.full(samples // 2, 10.0), np.full(samples - samples // 2, 90.0), [LOST]])

    assert detector.changes(rtts_ms) == []


step_series = st.lists(st.tuples(st.integers(1, 60), st.floats(1.0, 300.0)), min_size=1, max_size=6).map(
    lambda levels: np.concatenate([np.full(length, level_ms) for length, level_ms in levels])
)


@settings(deadline=None)
@given(step_series, st.integers(0, 2**16), st.data())
def test_later_samples_do_not_affect_earlier_changes(steps_ms, seed, data):
    """Changes in the first samples of a series do not depend on the following samples."""
    rtts_ms = steps_ms + np.random.default_rng(seed).exponential(1.0, len(steps_ms))
    now = data.draw(st.integers(0, len(rtts_ms)))

    by_now = [change for change in detector.changes(rtts_ms) if change.raised_at < now]

    assert detector.changes(rtts_ms[:now]) == by_now


@settings(deadline=None)
@given(step_series, st.integers(0, 2**16))
def test_changes_lie_within_15_samples_of_detection_and_apart(steps_ms, seed):
    rtts_ms = steps_ms + np.random.default_rng(seed).exponential(1.0, len(steps_ms))

    detected = detector.changes(rtts_ms)

    assert all(change.raised_at - change.at == AFTER - 1 for change in detected)
    assert all(change.evidence >= detector.LEAST_EVIDENCE for change in detected)
    assert [change.at for change in detected] == sorted({change.at for change in detected})


@settings(deadline=None, max_examples=30)
@given(step_series, st.integers(0, 2**16), st.floats(-0.5, 500.0))
def test_detection_is_independent_of_the_rtt_level(steps_ms, seed, further_ms):
    rtts_ms = steps_ms + np.random.default_rng(seed).exponential(1.0, len(steps_ms))
    series = np.concatenate([quiet_path(WINDOW), rtts_ms])
    windows = np.lib.stride_tricks.sliding_window_view(series, WINDOW)

    assert detector.evidence(windows + further_ms) == pytest.approx(detector.evidence(windows), abs=1e-6)


def test_the_evidence_is_the_mean_log_likelihood_ratio():
    """Computed in plain Python from the definition in docs/method/changes.md."""
    random = np.random.default_rng(5)
    window = (170.0 + random.exponential(0.2, WINDOW) + np.repeat([0.0, 4.0], [BEFORE, AFTER])).tolist()

    def misfit(stretch: list[float]) -> float:
        middle = statistics.median(stretch)
        return len(stretch) * math.log(0.3 + statistics.fmean(abs(value - middle) for value in stretch))

    ratios = []
    for before, after in ((8, 8), (10, 10), (14, 10), (10, 14)):
        part = window[BEFORE - before : BEFORE + after]
        floor_ms = float(np.quantile(part, 0.1))
        logs = [math.log(1.0 + max(0.0, rtt_ms - floor_ms)) for rtt_ms in part]
        ratios.append(misfit(logs) - misfit(logs[:before]) - misfit(logs[before:]))

    assert detector.evidence([window]) == pytest.approx([statistics.fmean(ratios)])


def test_many_paths_at_once_equal_each_path_alone():
    series = [quiet_path(WINDOW, seed=seed) for seed in range(40)]
    for number, rtts_ms in enumerate(series[::2]):
        rtts_ms[BEFORE:] += 1.0 + number

    together = detector.raised(np.array(series))

    assert len(together) > 10
    for row, rtts_ms in enumerate(series):
        assert detector.changes(rtts_ms) == ([together[row]] if row in together else [])


def test_more_paths_than_fit_into_a_block_are_processed():
    windows = np.tile(quiet_path(WINDOW), (9000, 1))
    windows[8999, BEFORE:] += 30.0

    assert list(detector.raised(windows)) == [8999]


@pytest.mark.parametrize(
    ("rise_ms", "severity"),
    [(30.0, ChangeSeverity.WARNING), (3.0, ChangeSeverity.NOTICE), (-30.0, ChangeSeverity.NOTICE)],
)
def test_only_a_large_rise_is_a_warning(rise_ms, severity):
    rtts_ms = quiet_path(100)
    rtts_ms[50:] += rise_ms

    assert [change.severity for change in detector.changes(rtts_ms)] == [severity]


def test_a_wider_spread_alone_is_not_a_shift():
    """Quartiles further apart: 100 ± 0.1 before, 80 and 120 after."""
    rtts_ms = np.array([100.0, 100.1] * 20 + [80.0, 120.0] * 20)

    detected = detector.changes(rtts_ms)

    assert [(change.at, change.shift_ms, change.severity) for change in detected] == [(40, 0.0, ChangeSeverity.NOTICE)]


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: detector.changes([[1.0]]), [" 2 dimensions", "give", "single series"]),
        (lambda: detector.evidence(np.ones((3, WINDOW + 1))), ["windows", "shape (3, 29)", "give", "(paths, 28)"]),
        (lambda: detector.raised(np.full((1, WINDOW), LOST)), ["lost samples", "give", "received"]),
    ],
)
def test_arrays_of_a_wrong_type_are_refused_by_name(call, facts):
    with pytest.raises(ValueError, match="give") as error:
        call()

    assert lacks(str(error.value), *facts) == []
