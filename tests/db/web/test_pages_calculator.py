"""The calculator page: the same as the command for the same figures, and what it says of figures that make no sense."""

import io
import re
from html import unescape

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command

from monitor.web.pages.calculator.load import LossField
from tests.facts import lacks

pytestmark = pytest.mark.django_db

KNOWN = {
    "rtt_ms": "175",
    "rtt_p10_ms": "174",
    "rtt_p90_ms": "181",
    "loss_ratio": "0.0001",
    "sent": "20000",
    "mss_bytes": "1460",
    "window_bytes": "2097152",
    "capacity_mbps": "100",
    "cc": "cubic",
    "streams": "1",
    "times": "2",
}


@pytest.fixture
def page(client):
    def get(status=200, **figures):
        answer = client.get("/calculator/", figures, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", answer.content.decode())))

    return get


def commanded(figures):
    """What `manage.py estimate` prints."""
    printed = io.StringIO()
    options = [part for name, value in figures.items() for part in (f"--{name.replace('_', '-')}", value)]
    call_command("estimate", *options, stdout=printed)
    return printed.getvalue()


def test_it_says_what_the_command_says(page):
    said, printed = page(**KNOWN), commanded(KNOWN)

    headline, needs = printed.splitlines()[0], printed.splitlines()[-1]
    assert "limited by loss" in headline
    assert headline in said
    assert needs in said
    for figure in re.findall(r"[\d.]+ [kM]bit/s", printed):
        assert figure in said


def test_without_figures_it_asks_for_them_and_says_nothing_wrong(page):
    said = page()

    assert "RTT" in said
    assert "required" not in said


@pytest.mark.parametrize(
    ("figure", "typed", "facts"),
    [
        ("rtt_ms", "0", ["RTT in milliseconds", "above 0"]),
        ("rtt_ms", "nan", ["Enter a number"]),
        ("rtt_ms", "", ["field is required"]),
        ("loss_ratio", "5", ["lost/sent", "from 0 to 1", "not a percentage"]),
        ("capacity_mbps", "-1", ["rate above 0"]),
        ("window_bytes", "0", ["bytes, 1 or more"]),
        ("streams", "1.5", ["Enter a whole number"]),
        ("cc", "vegas", ["vegas is not one of"]),
        ("times", "1", ["target speed-up", "above 1"]),
        ("sent", "3", ["no whole number", " 3 packets"]),
    ],
)
def test_a_figure_that_makes_no_sense_is_named_with_what_to_give(page, figure, typed, facts):
    said = page(422, **{**KNOWN, figure: typed}).lower()

    assert lacks(said, *(fact.lower() for fact in facts)) == []


def test_where_nothing_limits_it_says_what_would(page):
    said = page(422, rtt_ms="100", loss_ratio="0", mss_bytes="1460", cc="cubic", streams="1", times="2")

    assert lacks(said, "loss of 0", "no limit") == []


@pytest.mark.parametrize("typed", ["0.1%", "0.1 %", "0.001"])
def test_a_loss_in_percent_is_the_ratio(typed):
    assert LossField().clean(typed) == pytest.approx(0.001)


@pytest.mark.parametrize("typed", ["x%", "0.1%%", "nan%"])
def test_a_percentage_without_a_number_is_refused(typed):
    with pytest.raises(ValidationError, match="Enter a number"):
        LossField().clean(typed)


def test_a_typed_percentage_gives_the_estimate_of_its_ratio(page):
    assert (
        page(**{**KNOWN, "loss_ratio": "0.1%"}).split("Estimate")[-1]
        == (page(**{**KNOWN, "loss_ratio": "0.001"}).split("Estimate")[-1])
    )
