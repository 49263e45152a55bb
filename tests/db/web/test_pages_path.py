"""The path page: its figures, its charts' data, gaps, failed tests, and its query count."""

import re
from datetime import timedelta

import pytest

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.rollup.recompute import roll_up
from tests.db.mesh_of_three import batch, delivered
from tests.db.mesh_of_three import burst as measured
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, chart_spec, hour, throughput
from tests.db.stamp_rows import delivered_stamp, stamp_burst
from tests.db.throughput_runs import lab_run, store_lab_run
from tests.deliveries import store
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
SAID = {"duration_s": 10.0, "start_s": 0.2, "too_short": False, "wanted_s": 2.0, "peer_window_bytes": 3e6}
PATH_QUERIES = 53
"""Of these the present takes 16: the loss of now, its path and incidents (13), and the RTT (3)."""
ROUTE_QUERIES = 4
"""The TTLs of replies, the reverse path (2) and changes of routes, where the period is short enough for raw bursts."""
ESTIMATE_QUERIES = 5
"""The loss by direction, the tails of the RTTs, the capacity, the days that calibrate, and the tests to forecast from;
none where no ping was answered. With tests there is another, for the pings before them."""


@pytest.fixture
def page(client):
    def get(path, query=""):
        answer = client.get(f"/paths/{path.pk}/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def verdict(html: str) -> str:
    """The limit of the test, as the page shows it."""
    return re.search(r'id="transfer".*?class="verdict">(.*?)</p>', html, re.DOTALL)[1]


def test_the_heading_has_both_ends_distance_and_reverse_path(page, paths):
    html = page(paths["slac", "cern"])

    assert "192.0.2.2" in html
    assert "192.0.2.1" in html
    assert "9,378 km great-circle" in html
    assert f'href="/paths/{paths["cern", "slac"].pk}/?period=day&amp;size=100"' in html


def test_a_gap_ends_the_line_and_has_its_reason(page, paths):
    path = paths["slac", "cern"]
    start = NOW - timedelta(minutes=50)
    for minute in (0, 1, 2, 30, 31):
        burst(path, start + minute * MINUTE, 10.0, 11.0, 12.0)

    chart = chart_spec(page(path, "?period=hour"), "rtt")

    runs = {row["run"] for row in chart["datasets"]["steps"]}
    gaps = [(row["t2"] - row["t"]) / 60_000 for row in chart["datasets"]["no-data"]]
    assert len(runs) == 2
    assert gaps == [27.0, 18.0], "the axis begins with the first data of the path"


def test_own_tests_and_failures_are_not_called_missing(page, paths):
    path = paths["slac", "cern"]
    start = NOW - timedelta(minutes=60)
    for minute in range(60):
        rtts = () if minute == 20 else (10.0, 12.0)
        burst(path, start + minute * MINUTE, *rtts, during_test=minute == 40)

    datasets = chart_spec(page(path, "?period=hour"), "rtt")["datasets"]

    minutes = {
        name: [(row["t"] / 1000 - start.timestamp()) / 60 for row in datasets[name]]
        for name in ("no-data", "own-test", "not-measured")
    }
    assert minutes == {"no-data": [], "own-test": [40.0], "not-measured": [20.0]}


def test_a_minute_of_which_a_test_left_a_lost_packet_is_not_called_all_lost(page, paths):
    """Nor drawn as one without loss where that packet was answered; four lost in a row are."""
    path = paths["slac", "cern"]
    start = NOW - timedelta(minutes=60)
    answered = (80.0, 82.0, 81.0)
    left = {20: measured(None, at=start + 20 * MINUTE, loaded_rtts_ms=answered),
            30: measured(10.0, at=start + 30 * MINUTE, loaded_rtts_ms=answered),
            40: measured(*[None] * 4, at=start + 40 * MINUTE, loaded_rtts_ms=answered)}  # fmt: skip
    rows = [left.get(minute, measured(10.0, 12.0, at=start + minute * MINUTE)) for minute in range(60)]
    results = [delivered(path, row, number) for number, row in enumerate(rows, 1)]
    store(path.source.site_id, batch(*results), NOW)

    datasets = chart_spec(page(path, "?period=hour"), "rtt")["datasets"]

    minutes = {
        name: [round((row["t"] / 1000 - start.timestamp()) / 60) for row in datasets[name]]
        for name in ("own-test", "all-lost", "lossy", "no-data")
    }
    assert minutes == {"own-test": [20, 30], "all-lost": [40], "lossy": [40], "no-data": []}


def test_rtt_under_load_is_a_separate_figure(page, paths):
    path = paths["slac", "cern"]
    result = measured(10.0, 12.0, at=HOUR, loaded_rtts_ms=(80.0, None, 90.0))
    other = measured(10.0, at=HOUR + 5 * MINUTE, loaded_rtts_ms=(10.0, None))
    store(path.source.site_id, batch(delivered(path, result, 1), delivered(path, other, 2)), NOW)
    throughput(path, HOUR - timedelta(seconds=2), 1e9, duration_s=10.0)
    throughput(path, HOUR + 5 * MINUTE - timedelta(seconds=2), None, duration_s=10.0)
    throughput(paths["slac", "uct"], HOUR + 5 * MINUTE - timedelta(seconds=2), 1e9, duration_s=10.0)
    roll_up(NOW)

    tiles = dict(re.findall(r"<dt>(.*?)</dt>(.*?)</div>", page(path, "?period=hour"), re.DOTALL))

    assert "85.00 ms" in tiles["RTT under load"]
    assert "1 of 3 lost" in tiles["RTT under load"]
    assert tiles["loss"].startswith("<dd>0</dd>")
    assert "0 of 3" in tiles["loss"]
    assert "maximum 12.00 ms" in tiles["95th percentile RTT"]


def test_without_packets_under_load_there_is_no_such_figure(page, paths):
    hour(paths["slac", "cern"], sent=600, received=600, rtt_ms=10.0)

    assert "under load</dt>" not in page(paths["slac", "cern"])


def test_incidents_are_shaded_in_every_chart_from_their_onset(page, paths):
    path = paths["slac", "cern"]
    began = HOUR - 5 * MINUTE
    incident = Incident.objects.create(
        rule="loss",
        cause="cern ↔ slac",
        opened_at=HOUR,
        began_at=began,
        closed_at=HOUR + 10 * MINUTE,
        summary="as detected",
        title="cern ↔ slac lost 4%",
    )
    IncidentPath.objects.create(
        incident=incident,
        path=path,
        added_at=HOUR,
        rule="loss",
        sentence="loss 4%",
        since=HOUR,
        figures={"lost": 4, "sent": 100},
    )

    html = page(path)

    for chart in ("rtt", "throughput"):
        [span] = chart_spec(html, chart)["datasets"]["incidents"]
        assert (span["t"], span["t2"] - span["t"]) == (1000 * int(began.timestamp()), 15 * 60_000), chart
    assert span["label"] == incident.title
    assert incident.title in html


def test_a_failed_throughput_test_is_listed_with_its_outcome(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, 94.3e6, retransmits=0)
    throughput(path, HOUR + MINUTE, None, outcome="tool_failure", detail="connection refused")

    html = page(path)

    assert "94.3 Mbit/s" in html
    assert re.search(r"test error</b>: connection refused", html)
    datasets = chart_spec(html, "throughput")["datasets"]
    assert [row["bps"] for row in datasets["measured"]] == [94.3e6]
    assert [row["outcome"] for row in datasets["failed"]] == ["test error"]


def test_the_estimate_is_marked_as_a_floor_without_loss(page, paths):
    path = paths["slac", "cern"]
    hour(path, 600, 600, 100.0, hour=HOUR - timedelta(hours=1), estimate_bps=1.6e6, estimate_is_floor=True)
    hour(path, 600, 594, 100.0, estimate_bps=1.17e6, estimate_is_floor=False)

    steps = chart_spec(page(path), "throughput")["datasets"]["steps"]

    assert [(row["bps"], row["floor"]) for row in steps if row["t2"] is not None] == [(1.6e6, True), (1.17e6, False)]


def test_a_path_without_data_says_so(page, paths):
    html = page(paths["slac", "cern"], "?period=week")

    assert re.search(r"No data [^.<]*last week", html)
    [gap] = chart_spec(html, "rtt")["datasets"]["no-data"]
    assert gap["t2"] - gap["t"] == 7 * 86_400_000


def test_an_unknown_path_is_404(client, paths):
    answer = client.get("/paths/999999/", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert "There is no path 999999" in answer.content.decode()


def test_data_cannot_end_its_script_element(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, None, detail="</script><script>alert(1)</script>")

    html = page(path)

    assert "<script>alert(1)" not in html
    assert chart_spec(html, "throughput")["datasets"]["failed"][0]["detail"] == "</script><script>alert(1)</script>"


@pytest.mark.parametrize(
    ("period", "queries"),
    [("day", PATH_QUERIES + ROUTE_QUERIES + ESTIMATE_QUERIES), ("month", PATH_QUERIES - 2 + ESTIMATE_QUERIES)],
)
def test_the_page_has_a_fixed_query_count(page, paths, period, queries, django_assert_num_queries):
    path = paths["slac", "cern"]
    burst(path, HOUR, 100.0)
    for hours in range(5):
        hour(path, 600, 600, 100.0, hour=HOUR - timedelta(hours=hours))

    with django_assert_num_queries(queries):
        page(path, f"?period={period}")


@pytest.mark.parametrize("period", ["hour", "day", "week"])
def test_its_age_is_that_of_the_newest_burst(page, paths, period):
    path = paths["slac", "cern"]
    burst(path, NOW - timedelta(seconds=58), 100.0)
    burst(path, NOW - timedelta(seconds=8), 100.0)
    hour(path, 20, 20, 100.0)

    html = page(path, f"?period={period}")

    assert (
        f'datetime="{(NOW - timedelta(seconds=8)).isoformat()}" data-age'
        in re.search(r'id="age".*?</p>', html, re.DOTALL)[0]
    )


def test_stamp_has_its_downloads(page, paths):
    path = paths["slac", "cern"]
    store(path.source.site_id, batch(delivered_stamp(path, stamp_burst(at=HOUR, sent=60), 1)), NOW)
    roll_up(NOW)

    assert lacks_addresses(page(path), path.pk) == []
    assert len(lacks_addresses(page(paths["cern", "slac"]), paths["cern", "slac"].pk)) == 3


def lacks_addresses(html: str, path_id: int) -> list[str]:
    """The STAMP downloads that the page does not link to."""
    downloads = (
        f"/paths/{path_id}/directions.csv",
        f"/paths/{path_id}/stamp.csv",
        f"/api/v1/paths/{path_id}/directions",
    )
    return [address for address in downloads if f'href="{address}?' not in html]


def test_a_path_with_stamp_has_tiles_of_each_direction(page, paths):
    path = paths["slac", "cern"]
    hour(path, 600, 588, 100.0)
    cycles = [
        delivered_stamp(
            path, stamp_burst(at=HOUR + minute * MINUTE, sent=60, forward_lost=2, reverse_lost=0), minute + 1
        )
        for minute in range(10)
    ]
    store(path.source.site_id, batch(*cycles), NOW)
    roll_up(NOW)
    tiles = dict(re.findall(r'<div class="one-way"><dt>(.*?)</dt><dd>(.*?</dd><dd class="aside">.*?)</dd>', page(path)))

    assert list(tiles) == ["loss to cern", "loss from cern", "delay to cern", "delay from cern"]
    assert lacks(tiles["loss to cern"], "3.3%", "20 of 600 packets, by STAMP") == []
    assert lacks(tiles["loss from cern"], "&lt; 0.52%", "0 of 580 packets") == []
    # Raw 22 there and 20 back, the far clock 1 ms behind to 3 ms ahead.
    assert lacks(tiles["delay to cern"], "21.00 ms", "± 2.00 ms by the clocks") == []
    assert "one-way" not in page(paths["cern", "slac"])


@pytest.mark.parametrize(("offset_ms", "is_loose"), [((-1.0, 3.0), False), ((-20.0, 20.0), True)])
def test_delays_that_the_clocks_hardly_bound_tell_no_direction(page, paths, offset_ms, is_loose):
    """Raw 21 there and 19 back: with 20 ms either way each is anything up to the RTT of 40 ms."""
    path = paths["slac", "cern"]
    hour(path, 600, 588, 100.0)
    cycles = [stamp_burst(at=HOUR + minute * MINUTE, offset_ms=offset_ms) for minute in range(10)]
    rows = [delivered_stamp(path, cycle, number) for number, cycle in enumerate(cycles, 1)]
    store(path.source.site_id, batch(*rows), NOW)
    roll_up(NOW)

    html = page(path, "?tab=directions")

    (tile,) = re.findall(r"<dt>delay to cern</dt><dd>(.*?)</dd>", html)
    assert ("a change of one direction moves both lines" in html) == is_loose
    assert ("A step of one line while the other stays is a change in that direction" in html) != is_loose
    assert (tile == "not known") == is_loose


def test_a_path_with_stamp_has_a_tab_of_its_directions(page, paths):
    path = paths["slac", "cern"]
    cycles = [stamp_burst(at=HOUR + minute * MINUTE, sent=60, forward_lost=minute // 5) for minute in range(10)]
    rows = [delivered_stamp(path, cycle, number) for number, cycle in enumerate(cycles, 1)]
    store(path.source.site_id, batch(*rows), NOW)
    roll_up(NOW)

    html = page(path, "?tab=directions")

    assert re.search(r'id="to-directions"[^>]* aria-current="true"', html)
    assert len(re.findall(r'class="forward-bar" d="([^"]*)"', html)[0].split("z")) - 1 == 5
    assert "reverse-bar" not in html
    (said,) = re.findall(r'id="directions-sentence"[^>]*>(.*?)</p>', html)
    # 1 packet of 60 in each of five cycles; the period is a day, of which cycles ran for 10 minutes.
    assert lacks(said, "to cern 5 of 600 lost, most 1.7%", "from cern 0 of 595", "no data") == []
    assert re.findall(r'class="forward-(interval|delay)"', html) == ["interval", "delay"]
    other = page(paths["cern", "slac"], "?tab=directions")
    assert "tab-directions" not in other
    assert re.search(r'id="to-tests"[^>]* aria-current="true"', other)


def test_the_newest_test_is_shown_with_all_details(page, paths):
    path = paths["slac", "cern"]
    store_lab_run(path, "small_window", HOUR, NOW)
    store_lab_run(path, "queue", HOUR + MINUTE, NOW)

    html = page(path)

    assert lacks(verdict(html), "bottleneck at 9.65 Mbit/s", "queue raises the RTT") == []
    rate, windows, rtt = (chart_spec(html, f"transfer-{name}")["datasets"] for name in ("rate", "window", "rtt"))
    run = lab_run("queue")
    assert len(rate["rates"]) == len(run.transfer.received.end_s)
    assert sum(row["resent"] for row in rate["resent"]) == sum(run.transfer.sent.retransmits)
    assert [row["cwnd"] for row in windows["ends"]] == list(run.transfer.sent.cwnd_bytes)
    assert rtt["idle"] == [{"rtt": pytest.approx(run.transfer.kernel.rtt_min_ms, rel=1e-4)}]
    assert "buffer delay (RFC 6349)" in html


def test_a_test_can_be_chosen_by_its_time(page, paths):
    path = paths["slac", "cern"]
    store_lab_run(path, "small_window", HOUR, NOW)
    store_lab_run(path, "queue", HOUR + MINUTE, NOW)
    links = re.findall(r'href="\?(period=day&amp;size=\d+&amp;tab=tests&amp;test=[^"#]+)#transfer"', page(path))
    [link] = [link for link in links if link.endswith("test=2026-11-21T12:00:00Z")]

    html = page(path, "?" + link.replace("&amp;", "&"))

    assert re.match(r"window-limited at [\d.]+ Mbit/s", verdict(html))
    assert lacks(verdict(html), "receiver", "window", " 81 kB") == []


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("2026-11-21T12:00:01Z", ["no throughput test", "began"]),
        ("2026-11-21T12:00:01", ["time zone", "like test="]),
        ("yesterday", ["when it began", "like test="]),
    ],
)
def test_an_unknown_test_is_404(client, paths, query, facts):
    answer = client.get(f"/paths/{paths['slac', 'cern'].pk}/?test={query}", headers={"host": "localhost"})

    assert answer.status_code == 404
    assert lacks(answer.content.decode(), f"test={query.removesuffix('Z')}", *facts) == []


def spread(html: str) -> str:
    """The page's figures of all tests of the period."""
    return re.search(r'id="spread"[^>]*>(.*?)</p>', html, re.DOTALL)[1]


def test_the_spread_of_the_periods_tests_is_shown(page, paths):
    path = paths["slac", "cern"]
    for minute, rate_bps in enumerate((90e6, 94e6, 98e6)):
        throughput(path, HOUR + minute * MINUTE, rate_bps)
    throughput(path, HOUR + 5 * MINUTE, 1e6, protocol="udp")
    throughput(path, HOUR + 6 * MINUTE, 200e6, test="on-demand")

    # The deviation of 90, 94 and 98 is 4: their squared distances from the mean, 4, 0 and 4, over two.
    facts = (" 90 Mbit/s to 98 Mbit/s", "mean 94 Mbit/s", "standard deviation 4 Mbit/s")
    spread_text = spread(page(path))
    assert spread_text.startswith("3 tests ")
    assert lacks(spread_text, *facts) == []


@pytest.mark.parametrize(
    ("rates_bps", "tests"),
    [([47.8e6], "1 test "), ([47.81e6, 47.8e6], "2 tests ")],
)
def test_equal_throughputs_are_a_single_figure(page, paths, rates_bps, tests):
    path = paths["slac", "cern"]
    for minute, rate_bps in enumerate(rates_bps):
        throughput(path, HOUR + minute * MINUTE, rate_bps)

    spread_text = spread(page(path))
    assert spread_text.startswith(tests)
    assert re.findall(r"[\d.]+ .?bit/s", spread_text) == ["47.8 Mbit/s"]


def test_each_rtt_of_a_test_is_named_by_its_definition(page, paths):
    path = paths["slac", "cern"]
    throughput(path, HOUR, 9.65e6, rtt_mean_ms=12.02, diagnosis={**SAID, "loaded_rtt_ms": 11.66})

    html = page(path, f"?test={HOUR:%Y-%m-%dT%H:%M:%SZ}")

    assert re.search(r"mean RTT of the test</th>.*12\.02 ms", html, re.DOTALL)
    assert "<dt>median RTT after slow start</dt><dd>11.66 ms" in html
    assert "RTT under load" not in html


def alone(html: str) -> str:
    """The page's estimate from the path's figures alone, without the tests."""
    return re.search(r"capacity alone: ([^<]*)", html)[1]


def test_the_estimate_names_its_limit_beside_the_index(page, paths):
    path = paths["slac", "cern"]
    hour(path, 10_000, 9_900, 100.0)
    throughput(path, HOUR, 94.3e6, congestion_control="reno", verdict="bottleneck queue", diagnosis=SAID)

    html = page(path)

    # 100 lost of 10,000 at 100 ms: Reno's average window is 1.2/sqrt(0.01) = 12 segments of 1460 bytes per 100 ms, 1.4
    # Mbit/s before timeouts and retransmissions; the index 1460·8/(0.1·0.1) = 1.17 Mbit/s.
    assert re.search(r"about 1\.3\d? Mbit/s", alone(html))
    assert lacks(alone(html), "Mbit/s", "limited by loss", "(80%: ") == []
    rows = dict(re.findall(r"<tr><td>(window|loss|capacity|Mathis \(Reno\))</td><td class=\"number\">([^<]*)", html))
    assert (rows["window"], rows["capacity"], rows["Mathis (Reno)"]) == ("240 Mbit/s", "94.3 Mbit/s", "1.17 Mbit/s")


def test_with_bbr_a_small_loss_is_not_a_limit(page, paths):
    path = paths["slac", "cern"]
    hour(path, 10_000, 9_900, 100.0)
    throughput(path, HOUR, 94.3e6, congestion_control="bbr", verdict="bottleneck queue", diagnosis=SAID)

    html = page(path)

    # 1% of 94.3 Mbit/s is lost.
    assert lacks(alone(html), "about 93.4 Mbit/s", "limited by capacity", "(80%: ") == []
    assert lacks(html, "Tests use BBR", "keeps its rate", "about 5%") == []
