"""The grid page: each state of a cell in text and class, both directions, the first run, and its query count."""

import re
from datetime import timedelta

import pytest

from monitor.alerts.incidents.queries import lasting_and_over, open_incidents
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import ReceivedBatch, RefusedResult
from monitor.mesh.models import Group, Measurement, Mesh, Path, Site
from monitor.mesh.models import Test as MeshTest
from tests.db.batch_rows import store_batch
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, of_a_day, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
GRID_QUERIES = 26


@pytest.fixture
def page(client):
    def get(query=""):
        answer = client.get(f"/{of_a_day(query)}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def cell(html: str, path: Path) -> tuple[str, str, str]:
    """Class, visible text and spoken sentence of a path's cell."""
    pattern = rf'<td class="([^"]*)"><a id="p{path.pk}" href="[^"]*" aria-label="([^"]*)">(.*?)</a></td>'
    match = re.search(pattern, html)
    assert match, f"no cell of path {path.pk}"
    return match[1], re.sub(r"<[^>]*>", "", match[3]).replace("&lt;", "<"), match[2].replace("&lt;", "<")


def test_a_loss_is_in_the_cell_with_its_band(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=1000, received=979, rtt_ms=150.0)

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("loss-2", "2.1%")
    assert lacks(sentence, "slac to cern", "loss 2.1%", "acceptable") == []
    assert sentence.endswith(" 21 of 1,000 lost")


def test_no_loss_is_0_and_its_sentence_has_the_bound(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=1530, received=1530, rtt_ms=150.0)

    style, text, sentence = cell(page(), path)

    # 3 / 1530 is 0.196%.
    assert (style, text) == ("none-lost", "0")
    assert lacks(sentence, "no loss", "0 of 1,530", "below 0.2%", "95%") == []


@pytest.mark.parametrize("metric", ["loss", "rtt"])
def test_total_loss_is_a_separate_state(page, paths, metric):
    path = paths["slac", "cern"]
    hour(path, sent=600, received=0, bursts_all_lost=60)

    style, text, sentence = cell(page(f"?metric={metric}"), path)

    assert (style, text) == ("total-loss", "all lost")
    assert "all lost: 100% loss" in sentence


@pytest.mark.parametrize("metric", ["loss", "rtt", "throughput"])
def test_a_path_without_data_says_so(page, paths, metric):
    hour(paths["cern", "slac"], sent=10, received=10, rtt_ms=1.0)

    style, text, sentence = cell(page(f"?metric={metric}"), paths["slac", "cern"])

    assert (style, text, sentence) == ("no-data", "no data", "slac to cern: no data")


def test_a_failed_measurement_shows_its_outcome(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=0, received=0, bursts_not_measured=60)
    burst(path, HOUR, outcome="not_permitted")
    burst(path, HOUR + MINUTE, outcome="no_route")

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("not-measured", "no route")
    assert "test failed: no route" in sentence


def test_data_during_own_tests_only_differs_from_no_data(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=0, received=0, bursts_during_test=2)

    assert cell(page(), path)[:2] == ("own-test", "⇄during test")


def test_the_direction_that_loses_has_the_sign_too(page, paths):
    """The round trips of slac → cern show the loss of cern → slac, which its incident names."""
    for path in (paths["slac", "cern"], paths["cern", "slac"]):
        hour(path, sent=1000, received=980, rtt_ms=150.0)
    fields = {"opened_at": HOUR - MINUTE, "toward": "cern → slac", "toward_by": "STAMP"}
    incident = Incident.objects.create(rule="loss", cause="cern ↔ slac", summary="Loss", **fields)
    row = {"added_at": HOUR, "rule": "loss", "sentence": "loss 2%", "since": HOUR, "figures": {}}
    IncidentPath.objects.create(incident=incident, path=paths["slac", "cern"], **row)

    html = page()

    assert [cell(html, paths[ends])[0] for ends in (("slac", "cern"), ("cern", "slac"))] == ["loss-2 incident"] * 2
    # The sentence counts the same paths.
    assert lasting_and_over(open_incidents()) == ({paths["slac", "cern"].pk, paths["cern", "slac"].pk}, set())


def test_only_an_open_incident_has_a_sign(page, paths):
    for path, closed_at in ((paths["slac", "cern"], None), (paths["cern", "slac"], HOUR)):
        hour(path, sent=1000, received=900, rtt_ms=150.0)
        incident = Incident.objects.create(
            rule="loss", cause=str(path), opened_at=HOUR - MINUTE, closed_at=closed_at, summary=f"Loss on {path}"
        )
        IncidentPath.objects.create(
            incident=incident,
            path=path,
            added_at=HOUR,
            rule="loss",
            sentence="loss 4%",
            since=HOUR,
            figures={},
            is_over=closed_at is not None,
        )

    html = page()

    style, text, spoken = cell(html, paths["slac", "cern"])
    assert (style, text) == ("loss-4 incident", "▲10%")
    assert "incident open" in spoken
    assert cell(html, paths["cern", "slac"])[:2] == ("loss-4", "10%")
    assert html.index("Loss on slac → cern") < html.index("Recently resolved") < html.index("Loss on cern → slac")


def test_rtt_has_its_unit_and_both_directions(page, paths):
    hour(paths["slac", "cern"], sent=600, received=600, rtt_ms=151.2)
    hour(paths["cern", "slac"], sent=600, received=600, rtt_ms=9.5)

    html = page("?metric=rtt")

    dark, text, _ = cell(html, paths["slac", "cern"])
    pale, other, _ = cell(html, paths["cern", "slac"])
    assert (text, other) == ("151.2 ms", "9.50 ms")
    assert "step-0" == pale < dark


@pytest.mark.parametrize("scale", [0.001, 1.0, 10.0])
def test_rtt_colours_spread_over_the_values_there_are(page, paths, scale):
    """Whether in a building or between continents; the slowest path is the darkest."""
    ordered = list(paths.values())
    for number, path in enumerate(ordered):
        hour(path, sent=600, received=600, rtt_ms=scale * (20.0 + 10 * number if number < 5 else 400.0))

    html = page("?metric=rtt")

    styles = [cell(html, path)[0] for path in ordered]
    assert styles == sorted(styles)
    assert styles[0] == "step-0"
    assert styles[-1] == "step-5"
    assert len(set(styles)) >= 4


def test_rtts_that_hardly_differ_have_the_same_colour(page, paths):
    for number, path in enumerate(paths.values()):
        hour(path, sent=600, received=600, rtt_ms=20.0 + number / 10)

    html = page("?metric=rtt")

    assert {cell(html, path)[0] for path in paths.values()} == {"step-0"}
    assert "all about the same" in html


def test_throughput_is_the_median_of_the_measured_tests(page, paths):
    path = paths["slac", "cern"]
    for minute, rate in enumerate((80e6, 94.3e6, 99e6, None)):
        throughput(path, HOUR + minute * MINUTE, rate)

    style, text, sentence = cell(page("?metric=throughput"), path)

    assert (style, text) == ("step-0", "94.3 Mbit/s")
    assert lacks(sentence, "median of 3 of 4 tests", "latest", "busy") == []
    assert "on demand" not in sentence


def test_a_cell_of_two_tests_has_the_newest_rate(page, paths):
    """Their median, 15 Mbit/s, is a rate that neither had."""
    path = paths["slac", "cern"]
    for minute, rate in enumerate((28.9e6, 1.05e6, None)):
        throughput(path, HOUR + minute * MINUTE, rate)

    _, text, sentence = cell(page("?metric=throughput"), path)

    assert text == "1.05 Mbit/s"
    assert lacks(sentence, "newest of 2 of 3 tests") == []


@pytest.mark.parametrize(("period", "figure"), [("now", "newest of"), ("day", "median of")])
def test_on_demand_tests_are_said_to_count_in_no_cell(page, paths, period, figure):
    path, other = paths["slac", "cern"], paths["cern", "slac"]
    at = NOW - 10 * MINUTE
    throughput(path, at, 94.3e6)
    throughput(path, at + MINUTE, 3e6, test="on-demand")
    for minute in range(2):
        throughput(other, at + minute * MINUTE, 3e6, test="on-demand")

    html = page(f"?metric=throughput&period={period}")

    _, text, sentence = cell(html, path)
    assert text == "94.3 Mbit/s"
    assert lacks(sentence, f"{figure} 1 of 1 tests", " 1 test on demand or of sweeps not counted") == []
    _, text, sentence = cell(html, other)
    assert text == "no data"
    assert lacks(sentence, " 2 tests on demand or of sweeps not counted") == []


def test_failed_throughput_tests_are_an_outcome_and_not_zero(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, None, outcome="tool_failure")

    assert cell(page("?metric=throughput"), path)[:2] == ("not-measured", "test error")


def test_the_period_excludes_older_data(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=1000, received=500, rtt_ms=150.0, hour=HOUR - timedelta(hours=3))
    hour(path, sent=1000, received=1000, rtt_ms=150.0)

    html = page("?period=hour")

    assert cell(html, path)[1] == "0"
    assert cell(page("?period=day"), path)[1] == "25%"


def test_packet_sizes_are_not_mixed(page, paths):
    path = paths["slac", "cern"]
    hour(path, sent=1000, received=1000, rtt_ms=150.0)
    hour(path, sent=1000, received=900, rtt_ms=150.0, packet_bytes=1000)

    assert cell(page(), path)[1] == "0"
    assert cell(page("?size=1000"), path)[1] == "10%"


def test_the_worst_of_several_paths_represents_two_sites(page, paths):
    first = paths["slac", "cern"]
    source = first.source.site.hosts.create(name="slac-v6", address="2001:db8::1", family=6)
    destination = first.destination.site.hosts.create(name="cern-v6", address="2001:db8::2", family=6)
    second = Path.objects.create(source=source, destination=destination, family=6)
    Measurement.objects.create(path=second, test=MeshTest.objects.get(name="pinger"), started_at=NOW)
    hour(first, sent=1000, received=1000, rtt_ms=150.0)
    hour(second, sent=1000, received=900, rtt_ms=150.0)

    style, text, sentence = cell(page(), second)

    assert (style, text) == ("loss-4", "10%2")
    assert "IPv6" in sentence
    assert sentence.endswith("the worst of 2 paths")


def test_a_site_without_an_agent_has_a_column_and_no_row(page, paths):
    Measurement.objects.filter(path__source__site__name="uct").update(retired_at=NOW)
    hour(paths["slac", "uct"], sent=10, received=10, rtt_ms=1.0)

    html = page()

    assert '<th scope="col" title="UCT"><a href="/sites/uct/">uct</a></th>' in html
    assert '<th scope="row" title="UCT">' not in html


def test_a_group_shows_its_own_sites_only(page, paths):
    pair = Group.objects.create(name="pair", shape="mesh")
    pair.sites.set(Site.objects.filter(name__in=["slac", "cern"]))
    hour(paths["slac", "cern"], sent=10, received=10, rtt_ms=1.0)

    html = page("?group=pair")

    assert f'id="p{paths["slac", "cern"].pk}"' in html
    assert f'id="p{paths["slac", "uct"].pk}"' not in html


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("metric=jitter", ["loss, rtt, min-rtt, ipdv, unreachability, throughput, estimate, mos"]),
        ("period=fortnight", ["now, hour, day, week, month"]),
        ("size=abc", ["bytes of ICMP payload", "whole number"]),
        ("size=77", ["no packets of that size", "there are 100"]),
        ("group=nobody", ["no such group", "there are all"]),
    ],
)
def test_an_invalid_choice_is_named(client, paths, query, facts):
    hour(paths["slac", "cern"], sent=10, received=10, rtt_ms=1.0)

    answer = client.get(f"/?{query}", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert lacks(answer.content.decode(), query, *facts) == []


def test_agents_show_their_last_delivery_and_their_failures(page, paths):
    slac = Site.objects.get(name="slac")
    ReceivedBatch.objects.create(
        site=slac,
        spool="a",
        number=1,
        received_at=NOW - timedelta(seconds=12),
        sent_at=NOW,
        agent_version="0.1.0",
        accepted=1,
        refused=0,
        queued=7,
        dropped=3,
    )
    RefusedResult.objects.create(
        site=slac, spool="a", sequence=9, refused_at=NOW, reason="path 99 is not in the mesh", result={}
    )

    html = page()

    row = re.search(r"<tr>\s*<th scope=\"row\">slac.*?</tr>", html, re.DOTALL)
    numbers = re.findall(r'class="number[^"]*">(\d+)<', row[0])
    assert "12 s ago" in row[0]
    assert numbers == ["7", "3", "1"]
    assert "path 99 is not in the mesh" in html
    assert html.count("never reported") == 2


@pytest.mark.parametrize(("minutes", "sentence"), [(4, "<td><time"), (6, 'class="trouble">late: <time')])
def test_a_silent_agent_is_called_late(page, paths, minutes, sentence):
    store_batch(Site.objects.get(name="slac"), NOW - minutes * MINUTE)

    row = re.search(r"<tr>\s*<th scope=\"row\">slac.*?</tr>", page(), re.DOTALL)

    assert sentence in row[0]


def test_without_a_mesh_the_page_gives_instructions(page):
    assert "manage.py mesh apply mesh.toml" in page()


def test_before_the_first_result_the_page_says_when_it_is_due(page, paths):
    Mesh.objects.update(applied_at=NOW - timedelta(seconds=30))

    html = page()

    assert lacks(html, "6 paths", "to be measured") == []
    assert lacks(html, "No report", "cern, slac, uct") == []
    # the next cycle begins at 12:30:00, takes 1 + 2 sizes × 10 packets × 1 s, 2 s of waiting and 1 s for late replies,
    # then delivery and roll-up
    assert lacks(re.sub(r"</?time\b[^>]*>", "", html), "due", "12:30:44 UTC", "in 44 s") == []


def test_an_overdue_first_result_says_where_to_look(page, paths):
    Mesh.objects.update(applied_at=NOW - timedelta(minutes=10))

    assert lacks(page(), "was due", "2026-11-21 12:20:44 UTC", "logs") == []


def test_the_page_has_a_fixed_query_count_for_any_paths(page, paths, django_assert_num_queries):
    burst(paths["slac", "cern"], HOUR, 1.0)
    hour(paths["slac", "cern"], sent=10, received=10, rtt_ms=1.0)
    with django_assert_num_queries(GRID_QUERIES):
        page()
    for path in paths.values():
        if path != paths["slac", "cern"]:
            hour(path, sent=10, received=9, rtt_ms=1.0)

    with django_assert_num_queries(GRID_QUERIES):
        page()


def test_the_first_report_is_announced_with_its_date(page, paths, settings, tmp_path):
    """On Saturday 21 November; a mesh applied today has no report of last week."""
    settings.REPORT_DIR = tmp_path

    assert lacks(page(), "None yet", "first", "2026-11-23 00:15 UTC") == []
