"""Great-circle distances, compared with figures from other sources than the formula."""

import pytest

from monitor.analysis.geography import great_circle_km

QUARTER_OF_A_MERIDIAN_KM = 10_007.6  # of a sphere of radius 6371.0088 km


def test_pole_to_equator_is_a_quarter_of_the_circumference():
    assert great_circle_km(90, 0, 0, 77) == pytest.approx(QUARTER_OF_A_MERIDIAN_KM, abs=0.1)


def test_antipodes_are_half_of_the_circumference():
    assert great_circle_km(37.42, -122.2, -37.42, 57.8) == pytest.approx(2 * QUARTER_OF_A_MERIDIAN_KM, abs=0.2)


def test_the_published_distance_of_paris_and_new_york():
    # the usual textbook figure for 48.8566 N 2.3522 E and 40.7128 N 74.0060 W: 5,837 km
    assert great_circle_km(48.8566, 2.3522, 40.7128, -74.0060) == pytest.approx(5837, abs=3)


def test_the_distance_to_itself_is_zero_across_the_date_line():
    assert great_circle_km(10, 180, 10, -180) == pytest.approx(0, abs=1e-6)
