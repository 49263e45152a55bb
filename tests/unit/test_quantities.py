import pytest

from probes.quantities import counted, with_unit


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 results"), (1, "1 result"), (2, "2 results"), (1204, "1,204 results")]
)
def test_a_noun_agrees_with_its_number(count, text):
    assert counted(count, "result") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999.4, "999 B"),
        (1500, "1.5 kB"),
        (97_500_000, "97.5 MB"),
        (1.2e10, "12 GB"),
        (4.9e11, "490 GB"),
        (2.5e9, "2.5 GB"),
        (1.25e12, "1.25 TB"),
        (4e16, "40,000 TB"),
    ],
)
def test_a_value_has_three_digits_and_a_prefix(value, text):
    assert with_unit(value, "B") == text
