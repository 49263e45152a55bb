"""Parsing of labelled series in their authors' formats; the samples are synthetic."""

from datetime import UTC, datetime

import numpy as np
import pytest

from monitor.analysis.changes.labelled import UnreadableSeriesError, read
from tests.facts import lacks


def test_dates_with_dashes_and_decimal_commas_are_parsed():
    series = read(["epoch;rtt;cp", "2016-10-13 01:48:56;82,68108073;0", "2016-10-13 01:52:56;90,5;1"])

    assert series.measured_at == (
        datetime(2016, 10, 13, 1, 48, 56, tzinfo=UTC),
        datetime(2016, 10, 13, 1, 52, 56, tzinfo=UTC),
    )
    assert series.rtts_ms.tolist() == [82.68108073, 90.5]
    assert series.changed_at.tolist() == [1]


def test_dates_with_slashes_are_parsed_day_first_at_any_line_end():
    series = read(["epoch;rtt;cp\r\n", "14/10/2016 21:17;178.924995;0\r\n", "\r\n", "02/11/2016 00:01;178.7;0\n"])

    assert series.measured_at == (datetime(2016, 10, 14, 21, 17, tzinfo=UTC), datetime(2016, 11, 2, 0, 1, tzinfo=UTC))
    assert series.rtts_ms.tolist() == [178.924995, 178.7]


def test_samples_of_zero_or_less_are_lost():
    series = read(["epoch;rtt;cp", *(f"2016-12-22 13:14:1{n};{rtt};0" for n, rtt in enumerate(("-3", "0", "0,1")))])

    assert np.isnan(series.rtts_ms).tolist() == [True, True, False]


def test_a_header_alone_is_an_empty_series():
    series = read(["epoch;rtt;cp"])

    assert (series.measured_at, series.rtts_ms.size, series.changed_at.size) == ((), 0, 0)


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([], ["line 1:", '""', "not", '"epoch;rtt;cp"']),
        (["epoch;rtt"], ["line 1:", '"epoch;rtt"', "not", '"epoch;rtt;cp"']),
        (["epoch;rtt;cp", "", "2016-10-13 01:48:56;82"], ["line 3:", '"2016-10-13 01:48:56;82"', "not time;rtt;cp"]),
        (["epoch;rtt;cp", "2016-10-13 01:48:56;x;0"], ["line 2:", "float: 'x'"]),
        (["epoch;rtt;cp", "2016-10-13 01:48:56;8;2"], ["line 2:", "cp is '2'", "0 or 1"]),
        (["epoch;rtt;cp", "13.10.2016;8;0"], ["line 2:", '"13.10.2016;8;0"', "not time;rtt;cp"]),
    ],
)
def test_a_line_in_another_format_is_reported(lines, facts):
    with pytest.raises(UnreadableSeriesError) as error:
        read(lines)

    assert lacks(str(error.value), *facts) == []
