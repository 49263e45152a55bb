"""Number formats of the reader's language, and small charts."""

import pytest

from monitor.reports.formats.sparklines import svg_path, text
from monitor.reports.numbers import Numbers


@pytest.mark.parametrize(
    ("language", "count", "rate", "loss"),
    [
        ("en", "1,234,567", "93.4 Mbit/s", "< 0.003%"),
        ("de", "1.234.567", "93,4 Mbit/s", "< 0,003%"),
        ("fr", "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567", "93,4 Mbit/s", "< 0,003%"),
        ("ch", "1’234’567", "93.4 Mbit/s", "< 0.003%"),
    ],
)
def test_numbers_have_the_marks_of_their_language(language, count, rate, loss):
    numbers = Numbers(language)

    assert (numbers.count(1_234_567), numbers.bit_rate(93.4e6), numbers.loss(0, 100_800)) == (count, rate, loss)


def test_an_unknown_language_is_reported():
    with pytest.raises(ValueError, match='number format "xx" is unknown; valid: en, de, fr, ch'):
        Numbers("xx")


def test_sizes_have_two_digits_and_no_power_of_ten():
    assert [Numbers().size(size) for size in (512.0, 25e3, 678_700.0, 4.16e6, 2e9)] == [
        "512 B",
        "25 kB",
        "680 kB",
        "4.2 MB",
        "2 GB",
    ]


def test_chances_have_two_digits_or_a_bound():
    assert [Numbers().chance(chance) for chance in (0.25, 0.0131, 0.00099, 2.5e-9, 0.0)] == [
        "0.25",
        "0.013",
        "< 1e-3",
        "< 1e-8",
        "< 1e-300",
    ]


def test_bars_scale_from_minimum_to_maximum_with_dots_for_gaps():
    assert text([0.0, None, 7.0, 3.5]) == "▁·█▅"
    assert text([None, None]) == ""
    assert text([5.0, 5.0]) == "▁▁"


def test_a_line_breaks_at_gaps_and_a_single_day_is_a_dot():
    """Four days across 30: 0, 10, 20, 30; the minimum at the bottom (10), the maximum at the top (0)."""
    assert svg_path([1.0, 3.0, None, 2.0], 30, 10) == "M0 10L10 0M30 5h.4"
    assert svg_path([2.0, 2.0], 10, 10) == "M0 5L10 5"
    assert svg_path([None], 10, 10) == ""


def test_the_marks_of_a_sentence_are_not_those_of_its_figures():
    text = "slac loss 2.1% since then, up to 1,140 ms, no more."

    assert Numbers("de").figures_of(text) == "slac loss 2,1% since then, up to 1.140 ms, no more."


def test_an_address_in_a_text_stays_as_it_is():
    text = "192.0.2.1 – 10.0.0.2 lost 2.5% of 1,200,500 packets, 10.5 s."

    assert Numbers("de").figures_of(text) == "192.0.2.1 – 10.0.0.2 lost 2,5% of 1.200.500 packets, 10,5 s."
