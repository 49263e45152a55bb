"""The calculator page: the same output as the command for the same figures, and errors for invalid figures."""

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
    "loss_from": "pings",
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
    """The output of `manage.py estimate`."""
    printed = io.StringIO()
    options = [part for name, value in figures.items() for part in (f"--{name.replace('_', '-')}", value)]
    call_command("estimate", *options, stdout=printed)
    return printed.getvalue()


def test_it_prints_the_same_as_the_command(page):
    page_text, printed = page(**KNOWN), commanded(KNOWN)

    headline, needs = printed.splitlines()[0], printed.splitlines()[-1]
    assert "limited by loss" in headline
    assert headline in page_text
    assert needs in page_text
    for figure in re.findall(r"[\d.]+ [kM]bit/s", printed):
        assert figure in page_text


def test_without_figures_it_shows_an_empty_form(page):
    page_text = page()

    assert "RTT" in page_text
    assert "required" not in page_text


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
def test_an_invalid_figure_is_named_with_valid_values(page, figure, typed, facts):
    page_text = page(422, **{**KNOWN, figure: typed}).lower()

    assert lacks(page_text, *(fact.lower() for fact in facts)) == []


def test_without_a_limit_it_says_so(page):
    page_text = page(422, rtt_ms="100", loss_ratio="0", mss_bytes="1460", cc="cubic", streams="1", times="2")

    assert lacks(page_text, "loss of 0", "no limit") == []


@pytest.mark.parametrize("typed", ["0.1%", "0.1 %", "0.001"])
def test_a_loss_in_percent_equals_the_ratio(typed):
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


def test_it_asks_which_loss_it_is(page):
    page_text = page(422, **{name: value for name, value in KNOWN.items() if name != "loss_from"})

    assert lacks(page_text, "Say which loss it is", "retransmitted") == []


def test_a_retransmit_rate_is_no_upper_bound(page):
    page_text = page(**KNOWN | {"loss_from": "retransmits", "loss_ratio": "2%", "sent": ""})

    assert lacks(page_text, "between ", " lower bound of the throughput alone") == []
    assert "limited by loss" not in page_text
