"""Sketches compared with NumPy's exact quantiles of the same values, and merging compared with a single sketch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.sketches import IPDV_MS, RATE_BPS, RTT_MS, BucketScale, Sketches

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
round_trips = st.lists(st.floats(1e-5, 1e6), min_size=1, max_size=200)
values = st.lists(st.floats(-1e30, 1e30), max_size=60)


def relative_error(scale: BucketScale) -> float:
    """Maximum distance of a value from the middle of its bucket."""
    return (scale.growth - 1.0) / (scale.growth + 1.0)


@given(round_trips, st.sampled_from([RTT_MS, IPDV_MS]))
def test_a_quantile_has_at_most_the_stated_relative_error(rtts_ms, scale):
    quantiles = Sketches.of_values([0] * len(rtts_ms), rtts_ms, 1, scale).quantiles(SHARES, scale)

    assert quantiles[0] == pytest.approx(np.quantile(rtts_ms, SHARES), rel=relative_error(scale) * 1.0001)


def test_the_scales_are_within_1_percent():
    assert max(relative_error(scale) for scale in (RTT_MS, IPDV_MS, RATE_BPS)) < 0.01
    assert relative_error(RTT_MS) < 0.0025


@given(st.lists(values, max_size=6))
def test_merged_sketches_equal_the_sketch_of_all_values(parts):
    numbers = [number for part in parts for number in part]
    [whole] = Sketches.of_values([0] * len(numbers), numbers, 1, IPDV_MS).to_bytes()
    stored = Sketches.of_values(
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]), numbers, len(parts), IPDV_MS
    ).to_bytes()

    assert Sketches.of_bytes([b"".join(sketch or b"" for sketch in stored)]).to_bytes() == [whole]
    assert Sketches.of_bytes([b"".join(sketch or b"" for sketch in reversed(stored))]).to_bytes() == [whole]
    assert Sketches.of_bytes(stored).to_bytes() == stored


@given(values)
def test_each_value_is_counted_once_in_its_bucket(numbers):
    sketch = Sketches.of_values([0] * len(numbers), numbers, 1, IPDV_MS)

    counts = {}
    for number in numbers:
        size = abs(number) / IPDV_MS.unit
        key = 0
        while size > 1.0 and IPDV_MS.growth**key < size * (1 - 1e-12) and key < 32767:
            key = max(key + 1, int(np.log(size) / np.log(IPDV_MS.growth)) - 1)
        key = -key if number < 0 else key
        counts[key] = counts.get(key, 0) + 1
    assert dict(zip(sketch.key.tolist(), sketch.count.tolist(), strict=True)) == counts


def test_a_group_without_values_is_none_and_has_no_quantile():
    sketches = Sketches.of_values([1, 1], [np.nan, 3.0], 3, RTT_MS)

    assert [sketch is None for sketch in sketches.to_bytes()] == [True, False, True]
    assert np.isnan(sketches.quantiles((0.5,), RTT_MS)[:, 0]).tolist() == [True, False, True]
    assert Sketches.of_bytes([]).quantiles((0.5,), RTT_MS).shape == (0, 1)


def test_the_bytes_are_as_documented():
    # 8 units are in the bucket with 2^2 < 8 <= 2^3; the zigzag code of 3 - 1 is 4. 200 is C8 01 in LEB128.
    powers_of_two = BucketScale(unit=1.0, growth=2.0)

    [stored] = Sketches.of_values([0] * 201, [8.0] * 200 + [16.0], 1, powers_of_two).to_bytes()

    assert stored == bytes([0, 4, 1, 0xC8, 0x01, 1, 1])
