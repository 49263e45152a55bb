"""The path page's frame: the open incident, the loss tile, the links through time, tabs, and the first drawing."""

import html
import re
from datetime import timedelta
from urllib.parse import parse_qs

import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstDay
from monitor.archive.queries.directions import DirectionFigures
from monitor.mesh.models import Host, Path
from monitor.web.pages.path.directions import direction_tiles
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, chart_spec, hour, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY = timedelta(days=1)


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


@pytest.fixture
def page(client, path):
    def get(query="", of=path):
        answer = client.get(f"/paths/{of.pk}/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def links(text, label):
    """The query of a link through time; none where it leads nowhere."""
    tag = re.search(rf"<a ([^>]*)>{label}</a>", text)[1]
    query = re.search(r'href="\?([^"]+)"', tag)
    return None if query is None else {name: values[0] for name, values in parse_qs(html.unescape(query[1])).items()}


def sentence(text, name="rtt"):
    return html.unescape(re.search(rf'<p id="{name}-sentence"[^>]*>(.*?)</p>', text)[1])


def test_a_clean_path_has_loss_0_and_the_bound_below(page, path):
    hour(path, 1530, 1530, 100.0)

    figure, ground = re.search(r'<dt>loss</dt><dd>(.*?)</dd><dd class="aside">(.*?)</dd>', page()).groups()

    # 3/1530 is 0.196%.
    assert (figure, ground) == ("0", "0 of 1,530, so below 0.2% (95%)")


def test_a_lossy_path_has_its_loss_and_the_counts(page, path):
    hour(path, 1000, 990, 100.0)

    assert '<dt>loss</dt><dd>1%</dd><dd class="aside">10 of 1,000 lost</dd>' in page("?period=week")


def opened(path, at, **fields):
    incident = Incident.objects.create(
        rule="loss", cause="cern ↔ slac", opened_at=at, summary="as detected", title="cern ↔ slac loses 4%", **fields
    )
    IncidentPath.objects.create(
        incident=incident,
        is_over=incident.closed_at is not None,
        path=path,
        added_at=at,
        rule="loss",
        sentence="loss 4%",
        since=at,
        figures={"lost": 4, "sent": 100},
    )
    return incident


def test_an_open_incident_is_above_everything_else(page, path):
    opened(path, HOUR - timedelta(hours=3), closed_at=HOUR - timedelta(hours=2))
    incident = opened(path, HOUR)

    text = page()

    banner = re.search(r'<div id="alarm".*?</div>', text, re.DOTALL)[0]
    assert re.findall(r'href="/incidents/(\d+)/"', banner) == [str(incident.pk)]
    assert text.index(banner) < text.index("<h1>") < text.index('id="figures"')


def test_links_go_through_time_and_keep_the_rest(page):
    text = page("?period=day&size=100&tab=changes")

    assert links(text, "← earlier") == {
        "size": "100",
        "tab": "changes",
        "since": "2026-11-19T12:30",
        "until": "2026-11-20T12:30",
    }
    assert links(text, "later →") is None
    assert links(text, "zoom out") == {
        "size": "100",
        "tab": "changes",
        "since": "2026-11-19T12:30",
        "until": "2026-11-21T12:30",
    }
    assert links(text, "back to live") is None


def test_a_window_of_the_past_leads_later_and_back_to_live(page):
    text = page("?since=2026-11-21T10:00&until=2026-11-21T12:00&size=100")

    later, wider, live = (links(text, label) for label in ("later →", "zoom out", "back to live"))
    assert (later["since"], later["until"]) == ("2026-11-21T10:30", "2026-11-21T12:30"), "not beyond the present"
    assert (wider["since"], wider["until"]) == ("2026-11-21T08:30", "2026-11-21T12:30")
    assert live == {"size": "100", "period": "day"}
    assert lacks(text, "2026-11-21 10:00 to 12:00 UTC (2 h)") == []


def test_nothing_is_earlier_than_time_or_wider_than_five_years(page):
    assert links(page("?since=2021-11-17&until=2026-11-21"), "zoom out") is None
    assert links(page("?since=1970-01-01T00:00&until=1970-01-01T01:00"), "← earlier") is None


def test_the_axis_begins_at_the_first_data_of_the_path(page, path):
    hour(path, 600, 600, 100.0, hour=HOUR - 30 * timedelta(hours=1))
    hour(path, 600, 600, 100.0)

    since = {param["name"]: param["value"] for param in chart_spec(page("?period=month"), "rtt")["params"]}["since"]

    assert since == 1000 * int((HOUR - timedelta(hours=30)).timestamp())


def test_the_axis_of_a_first_result_has_five_minutes(page, path):
    throughput(path, NOW - timedelta(seconds=10), 94e6)

    signals = {param["name"]: param["value"] for param in chart_spec(page(), "rtt")["params"]}

    assert signals["until"] - signals["since"] == 5 * 60 * 1000


def test_without_data_the_page_leads_to_the_newest(page, path):
    never = page()
    at = HOUR - 60 * DAY
    hour(path, 600, 590, 100.0, hour=at)
    text = page()

    assert "Newest data before" not in never
    query = re.search(r'Newest data before: <a href="\?([^"]+)"', text)[1]
    assert parse_qs(html.unescape(query))["since"] == [f"{at:%Y-%m-%dT%H:%M}"]
    assert lacks(page("?" + html.unescape(query)), "10 of 600 lost", f"{at:%Y-%m-%d %H:%M} to ") == []
    assert sentence(text).count("no data") == 1


def test_two_years_are_drawn_from_days(page, path):
    fields = {"rtt_median_ms": 100.0, "rtt_min_ms": 90.0, "rtt_p25_ms": 95.0, "rtt_p75_ms": 105.0}
    row = hour(path, 1530, 1530, 100.0)
    values = {
        field.attname: getattr(row, field.attname)
        for field in row._meta.fields
        if field.name not in ("hour", "slot_minima_ms", "pk")
    }
    days = [NOW.replace(hour=0, minute=0) - number * DAY for number in range(1, 730)]
    BurstDay.objects.bulk_create(BurstDay(**{**values, **fields}, day=day) for day in days)

    text = page("?since=2024-11-21T00:00&until=2026-11-21T00:00")

    assert len(chart_spec(text, "rtt")["datasets"]["steps"]) >= 729


def test_an_ipv6_path_has_its_addresses_and_figures(page, paths):
    ends = [
        Host.objects.create(site=host.site, name=f"{host.name}-6", address=f"2001:db8::{host.pk}", family=6)
        for host in (paths["slac", "cern"].source, paths["slac", "cern"].destination)
    ]
    path = Path.objects.create(source=ends[0], destination=ends[1], family=6)
    hour(path, 600, 590, 80.0)

    text = page("", path)

    assert lacks(text, ends[0].address, ends[1].address, "IPv6", "10 of 600 lost") == []


def test_a_gap_at_the_beginning_is_shown_where_there_are_older_data(page, path):
    hour(path, 600, 600, 100.0, hour=NOW - 50 * DAY)
    hour(path, 600, 600, 100.0)

    text = page("?period=month")

    since = {param["name"]: param["value"] for param in chart_spec(text, "rtt")["params"]}["since"]
    assert since == 1000 * int((NOW - 30 * DAY).timestamp())
    assert chart_spec(text, "rtt")["datasets"]["no-data"][0]["t"] == since


@pytest.mark.parametrize(("earlier_min", "trimmed"), [(None, True), (25, False)])
def test_data_of_the_hour_in_which_the_period_begins_count(page, path, earlier_min, trimmed):
    """From 11:30 on: pings since 11:50, and perhaps some at 11:05."""
    if earlier_min is not None:
        burst(path, NOW - timedelta(hours=1, minutes=earlier_min), 10.0)
    for minute in range(3):
        burst(path, HOUR - 10 * MINUTE + minute * MINUTE, 10.0)
    hour(path, 30, 30, 10.0, hour=HOUR - timedelta(hours=1))

    params = {param["name"]: param["value"] for param in chart_spec(page("?period=hour"), "rtt")["params"]}

    began = HOUR - 10 * MINUTE if trimmed else NOW - timedelta(hours=1)
    assert params["since"] == 1000 * int(began.timestamp())


def test_every_interval_is_drawn_before_any_script_runs(page, path):
    for minute in range(20):
        burst(path, HOUR + minute * MINUTE, *[10.0] * (10 if minute != 7 else 8), *[None] * (0 if minute != 7 else 2))
    throughput(path, HOUR + 3 * MINUTE, 94e6)

    text = page("?period=hour")

    drawing = re.search(r'<div class="drawn smoke-drawn".*?</div>', text, re.DOTALL)[0]
    drawn = dict(re.findall(r'<path class="(loss-[^"]+)" d="([^"]+)"', drawing))
    assert {name: shape.count("M") for name, shape in drawn.items()} == {
        "loss-step-0": 19,
        "loss-step-4": 1,
        "loss-bar-4": 1,
    }
    assert 'class="drawn throughput-drawn"' in text
    assert 'class="measured-dot"' in text
    assert "style=" not in text, "the policy of the page allows no styles"


def test_the_legend_has_the_keys_of_the_data_only(page, path):
    for minute in range(20):
        burst(path, HOUR + minute * MINUTE, *[10.0] * 10)
    throughput(path, HOUR + 3 * MINUTE, 94e6)

    keys = re.search(r'<ul class="keys" id="rtt-keys".*?</ul>', page("?period=hour"), re.DOTALL)[0]

    styles = set(re.findall(r'class="key(?:-sign)? (?:key-line )?([\w-]+)"', keys))
    assert {style for style in styles if style.startswith("loss-step")} == {"loss-step-0"}
    assert "measured" in styles
    assert styles & {"failed", "all-lost", "not-measured", "incident-span", "route-change"} == set()


def test_the_charts_program_is_not_loaded_with_the_page(page):
    text = page()

    scripts = re.findall(r"<script src=\"([^\"]+)\"([^>]*)>", text)
    assert [address for address, _ in scripts if "vega" in address] == []
    [rest] = [rest for address, rest in scripts if re.search(r"/charts\.([0-9a-f]+\.)?js$", address)]
    assert re.search(r'data-bundle="/charts/vega-', rest)
    assert all("defer" in rest for _, rest in scripts)


def test_a_charts_sentence_has_its_figures(page, path):
    for minute in range(30):
        rtt_ms = 210.0 if minute == 12 else 155.0
        burst(path, HOUR + minute * MINUTE, *[rtt_ms] * (10 if minute else 5), *[None] * (0 if minute else 5))
    throughput(path, HOUR, 94e6)
    opened(path, HOUR + 5 * MINUTE, began_at=HOUR)

    text = page("?period=hour")

    assert (
        lacks(
            sentence(text),
            "RTT of slac to cern, 30 min:",
            "median 155.0 ms",
            "highest 210.0 ms at 2026-11-21 12:12 UTC",
            "loss 1.7% (5 of 300 lost)",
            "most 50% in the interval at 2026-11-21 12:00 UTC",
            "incident: cern ↔ slac loses 4%",
        )
        == []
    )
    assert lacks(sentence(text, "throughput"), "slac to cern", "median 94 Mbit/s", "1 of 1 tests") == []
    assert "on demand" not in text
    assert text.count('role="img" aria-labelledby="rtt-sentence"') == 1


def test_on_demand_tests_are_said_not_to_count(page, path):
    burst(path, NOW - 25 * MINUTE, *[10.0] * 10)
    throughput(path, NOW - 20 * MINUTE, 3e6, test="on-demand")
    text = page("?period=hour")
    assert lacks(sentence(text, "throughput"), "no scheduled test, 1 test on demand or of sweeps not counted") == []
    assert lacks(text, "no scheduled test in this period, 1 test on demand or of sweeps not counted") == []
    throughput(path, NOW - 30 * MINUTE, 94e6)

    text = page("?period=hour&tab=tests")

    assert lacks(sentence(text, "throughput"), "median 94 Mbit/s", "1 of 1 tests, 1 test on demand") == []
    assert lacks(text, "median of 1 of 1 tests, 1 test on demand", "1 test measured: 94 Mbit/s; 1 test on demand") == []


def test_the_tile_of_two_throughput_tests_has_both_rates(page, path):
    """Their median, 15 Mbit/s, is a rate that neither had."""
    burst(path, NOW - 55 * MINUTE, *[10.0] * 10)
    for minutes, rate in ((40, 28.9e6), (20, 1.05e6)):
        throughput(path, NOW - minutes * MINUTE, rate)

    text = page("?period=hour&tab=tests")

    both = "1.05 Mbit/s to 28.9 Mbit/s"
    assert lacks(text, both, "2 of 2 tests; newest 1.05 Mbit/s") == []
    assert lacks(sentence(text, "throughput"), f"{both}, 2 of 2 tests, newest 1.05 Mbit/s") == []
    assert "median 15 Mbit/s" not in text
    assert "median of 2" not in text


def test_the_tile_of_throughput_has_the_newest_rate_beside_the_median(page, path):
    burst(path, NOW - 55 * MINUTE, *[10.0] * 10)
    throughput(path, NOW - 50 * MINUTE, 20e6)
    assert "; newest" not in page("?period=hour"), "it is the median"
    for minutes, rate in ((40, 21e6), (30, 22e6), (20, 3e6)):
        throughput(path, NOW - minutes * MINUTE, rate)
    throughput(path, NOW - 15 * MINUTE, None)
    throughput(path, NOW - 12 * MINUTE, 50e6, protocol="udp")

    assert lacks(page("?period=hour"), "20.5 Mbit/s", "median of 4 of 5 tests; newest 3 Mbit/s, ", "12:10 UTC") == []
    throughput(path, NOW - 10 * MINUTE, 1e6, test="on-demand")
    assert lacks(page("?period=hour"), "1 test on demand or of sweeps not counted; newest 1 Mbit/s") == []


def test_a_sentence_tells_gaps_and_total_loss(page, path):
    for minute in range(30):
        if minute < 20:
            burst(path, HOUR + minute * MINUTE, *[10.0 if minute < 15 else None] * 10)

    assert lacks(sentence(page("?period=hour")), "no data for 10 min", "all lost for at least 5 min") == []


@pytest.mark.parametrize("tab", ["tests", "estimate", "incidents", "changes", "ledger", "download"])
def test_each_tab_has_an_address_and_only_its_panel_is_open(page, tab):
    text = page(f"?period=week&tab={tab}")

    panels = dict(re.findall(r'<div class="tab-panel" id="tab-([a-z]+)"( hidden)?>', text))
    assert [name for name, hidden in panels.items() if not hidden] == [tab]
    assert len(panels) == 6
    [current] = re.findall(r'<a id="to-([a-z]+)"[^>]* aria-current="true"', text)
    assert current == tab
    assert f'href="?period=week&amp;tab={tab}#tab-{tab}"' in text


def test_an_unknown_tab_is_404(client, path):
    answer = client.get(f"/paths/{path.pk}/?tab=colour", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert lacks(answer.content.decode(), "tab=colour", "tests", "incidents") == []


def test_packets_of_unknown_direction_widen_the_interval_of_each(path):
    """Exact intervals by scipy.stats.binomtest: 14 of 439 from 1.75%, 16 to 5.85%, 2 of 425 to 1.69%."""
    forward, reverse = direction_tiles(path, DirectionFigures(437, 14, 0, 2, None, None, None, None))

    assert (forward.figure, reverse.figure) == ("1 to 6%", "up to 1.7%")
    assert lacks(forward.ground, "95%", "14 of 437 packets", "direction of 2 more lost is not known") == []


@pytest.mark.parametrize("test", ["tcp", "on-demand"])
def test_the_expected_throughput_says_that_an_on_demand_test_does_not_count(page, path, test):
    hour(path, 600, 598, 100.0)
    throughput(path, HOUR + MINUTE, 17.6e6)
    throughput(path, HOUR + 9 * MINUTE, 1.9e6, test=test)

    [panel] = re.findall(r'<div id="estimate".*?</div>', page(), re.DOTALL)

    assert ("1 test on demand" in panel) == (test == "on-demand")
