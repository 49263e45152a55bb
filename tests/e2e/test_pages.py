"""Every page in a real browser over the real stack and the lab: it loads completely and quickly, fits, is readable and
printable, and shows the impairments of the scenario.

A single stack serves all of it; pages that need late data (an incident, throughput tests) are visited last. The pages
are those of `monitor.web.urls` and `monitor.reports.urls`: a new page that is not visited here fails.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Formatter

import psycopg
import pytest
from scipy.stats import binom

import monitor.reports.urls
import monitor.web.urls
from probes.lab.scenario import load_scenario
from tests.e2e.stack import running_stack, wait_for
from tests.e2e.visits import A4_PX, DRAWN, FOR_THE_SCREEN, browsing, too_wide, visiting, wrong_for_readers

pytestmark = pytest.mark.timeout(300)

FILE = Path(__file__).with_name("pages.toml")
SCENARIO = load_scenario(str(FILE))
PAIRS = [(site_name, other) for site_name in SCENARIO.site_names for other in SCENARIO.site_names if site_name != other]
PASSWORD = "long and winding"

PAGES = {
    "login": "/login/",
    "captures": "/captures/",
    "calculator": "/calculator/?rtt_ms=100&loss_ratio=0.001&loss_from=pings&mss_bytes=1460&cc=cubic&streams=1&times=2",
    "sites": "/sites/",
    "site": "/sites/bern/",
    "completeness": "/completeness/",
    "paths": "/paths/?name=bern",
    "table": "/table/?tick=hour",
    "map": "/map/",
    "routes": "/routes/",
    "compare": "/compare/?path={path_id}&path={way_back_id}",
    "maintenance": "/maintenance/",
    "maintenance-change": "/maintenance/{quiet_id}/",
    "audit": "/audit/",
    "share": "/share/?address=/sites/",
    "unsubscribe": "/unsubscribe/{subscription}/",
    "reports": "/reports/?{week}",
    "report": "/reports/{week}",
    "search": "/search/?q=bern",
    "preferences": "/settings/",
    "status": "/status/",
    "aggregates": "/aggregates/?{aggregate_id}",
    "aggregate": "/aggregates/{aggregate_id}/",
    "sweeps": "/sweeps/?{sweep_id}",
    "sweep": "/sweeps/{sweep_id}/",
    "throughput": "/throughput/?{tested_path_id}",
    "records": "/records/?{tested_path_id}",
    "path": "/paths/{tested_path_id}/",
    "incidents": "/incidents/?state=all&{incident_id}",
    "incident": "/incidents/{incident_id}/",
    "grid": "/?{incident_id}",
}
"""The address of each page by the name of its view. Names in braces are fixtures, which wait until their object exists;
a page ignores them behind a question mark."""

FOR_OPERATORS = (
    "path", "captures", "aggregates", "incident", "maintenance", "maintenance-change", "audit", "share", "preferences",
)  # fmt: skip
"""Pages visited by an operator, who sees more."""

NOT_PAGES = {
    "series-csv", "bursts-csv", "tests-csv", "changes-csv", "table-tsv", "chart-bundle", "grid-cell", "grid-changes",
    "routes-csv", "directions-csv", "stamp-csv", "path-charts", "trace-now", "capture-pcap",
    "request-response-csv", "aggregates-csv",
    "annotate", "annotation-remove", "site-annotate", "site-annotation-remove",
    "aggregate-now", "cancel-aggregate",
    "run-now", "test-now", "path-progress", "acknowledge", "unacknowledge", "comment", "quiet-end", "silence", "logout",
    "share-revoke", "shared", "sso", "sso-callback",
    "search-suggestions", "lab", "lab-expected", "centres",
}  # fmt: skip
"""Files, answers to forms and scripts, and the pages that exist only where a lab runs or other centres are set."""

ON_PLANTED_ROWS = {
    "routes", "sites", "site", "completeness", "paths", "table", "compare", "maintenance", "reports", "search",
    "preferences", "throughput", "records", "sweeps", "aggregates", "aggregate", "incidents", "calculator",
}  # fmt: skip
"""Pages that `tests.e2e.pages.test_every_page_fits` opens on every screen and on paper, without a stack."""

PHONE_PX = 390
PHONE_RULES = ("target-size", "scrollable-region-focusable", "color-contrast")
"""The rules of axe that depend on the size of the screen; all of them run on the desktop."""
MOST_BYTES = 500_000
NOT_PRINTED = {"login", "unsubscribe"}
UNLIKE_ERRORS = {"/nowhere/", "/?metric=colour"}
"""An error page without a list of choices and one with it; the others have the same template and other words."""


def rtt_ms(pair):
    """The RTT of a path in the scenario."""
    return SCENARIO.paths[pair].delay_ms + SCENARIO.paths[pair[::-1]].delay_ms


def loss_ratio(pair):
    """The ratio of RTTs lost in the scenario, in either direction."""
    return 1 - (1 - SCENARIO.paths[pair].loss_ratio) * (1 - SCENARIO.paths[pair[::-1]].loss_ratio)


@pytest.fixture(scope="module")
def stack(namespaces_required):
    with running_stack("--lab", str(FILE)) as stack:
        yield stack


@pytest.fixture(scope="module")
def browser():
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def served(stack):
    return f"http://127.0.0.1:{stack.port}"


@pytest.fixture(scope="module")
def watching(browser, served):
    """A list of incidents that is opened before the first incident, and never reloaded."""
    with visiting(browser) as visit:
        visit.open(f"{served}/incidents/")
        visit.page.evaluate("() => { window.kept = 'since the beginning'; }")
        assert visit.page.locator("[data-incident]").count() == 0
        yield visit


@pytest.fixture(scope="module", autouse=True)
def measured(stack, watching):
    """Every path has replies, with packets of each size."""

    def answered(size):
        cells = stack.get(f"grid?metric=rtt_median_ms&period=hour&size={size}")["cells"]
        return {(cell["source"], cell["destination"]) for cell in cells if cell["value"] is not None}

    for size in SCENARIO.measure.ping.packet_bytes:
        wait_for(lambda size=size: answered(size) == set(PAIRS), 120, f"every path has answered {size} bytes")


@pytest.fixture(scope="module")
def path_ids(stack):
    return {
        (cell["source"], cell["destination"]): cell["path_id"] for cell in stack.get("grid?metric=loss_ratio")["cells"]
    }


@pytest.fixture(scope="module")
def path_id(path_ids):
    return path_ids["bern", "rome"]


@pytest.fixture(scope="module")
def way_back_id(path_ids):
    return path_ids["rome", "bern"]


@pytest.fixture(scope="module")
def tested_path_id(stack, path_id):
    """The path, after a throughput test of it was measured."""

    def tested():
        return [test for test in stack.get(f"paths/{path_id}/throughput") if test["outcome"] == "measured"]

    wait_for(tested, 240, "a throughput test has measured")
    return path_id


@pytest.fixture(scope="module")
def aggregate_id(stack, path_ids):
    """A run of an aggregate test, stored: the scenario has none."""
    members = [{"path_id": path_id, "slot_id": 1, "source": a, "destination": b, "outcome": "missed"}
               for (a, b), path_id in path_ids.items() if b == "bern"]  # fmt: skip
    now = datetime.now(UTC)
    row = {
        "slot_id": 1, "test": "in", "shape": "many-to-one", "starts_at": now, "ends_at": now, "state": "failed",
        "is_final": True, "members": len(members), "measured": 0, "computed_at": now,
        "path_ids": json.dumps([member["path_id"] for member in members]),
        "details": json.dumps({"members": members}),
    }  # fmt: skip
    columns, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(f"INSERT INTO aggregate_run ({columns}) VALUES ({values})", row)
    return row["slot_id"]


@pytest.fixture(scope="module")
def incident_id(stack):
    """The scenario's loss, detected."""

    def loss_incident():
        return [incident["id"] for incident in stack.get("incidents?state=open") if incident["rule"] == "loss"]

    return wait_for(loss_incident, 150, "an incident of loss is open")[0]


@pytest.fixture(scope="module")
def operator(stack, browser, served):
    """The cookies of an operator who logged in."""
    stack.manage("user", "add", "les", "--role", "operator", typed=PASSWORD)
    with visiting(browser) as visit:
        visit.open(f"{served}/login/")
        visit.page.get_by_label("User name").fill("les")
        visit.page.get_by_label("Password").fill(PASSWORD)
        visit.page.get_by_role("button", name="Log in").click()
        visit.page.get_by_role("button", name="Log out les").wait_for()
        return visit.page.context.storage_state()


@pytest.fixture(scope="module")
def quiet_id(browser, served, operator):
    """Maintenance of a site, scheduled on its page."""
    with visiting(browser, storage_state=operator) as visit:
        visit.open(f"{served}/maintenance/?site=rome")
        visit.page.locator("#plan").get_by_label("reason").fill("new router")
        visit.page.get_by_role("button", name="Schedule", exact=True).click()
        change = visit.page.get_by_role("link", name="Change maintenance for rome")
        return re.search(r"/maintenance/(\d+)/", change.get_attribute("href"))[1]


@pytest.fixture(scope="module")
def week(stack):
    """The report of the running week."""
    name = f"{datetime.now(UTC):%G-W%V}"
    stack.manage("report", "weekly", "--week", name)
    return name


@pytest.fixture(scope="module")
def subscription(stack):
    stack.manage("report", "subscribe", "ops@soundings.example")
    with psycopg.connect(stack.database_url) as connection:
        return connection.execute("SELECT token FROM report_subscriber").fetchone()[0]


@pytest.fixture(scope="module", autouse=True)
def sweeping(stack, measured):
    """A sweep of a single cell, which runs on its own for half a minute."""
    arguments = ("bern", "rome", "--windows", "64K", "--streams", "1", "--duration-s", "1")
    with ThreadPoolExecutor() as pool:
        yield pool.submit(stack.manage, "throughput", "sweep", *arguments)


@pytest.fixture(scope="module")
def sweep_id(stack, sweeping):
    """The sweep after it has ended."""
    sweeping.result()
    return stack.get("sweeps")[0]["id"]


def address(request, name):
    """The page's address, after all that it needs exists."""
    fixture_names = [fixture for _, fixture, _, _ in Formatter().parse(PAGES[name]) if fixture]
    return PAGES[name].format(**{fixture: request.getfixturevalue(fixture) for fixture in fixture_names})


def of_visitor(request, name):
    """The page's visitor, as options of the browser."""
    if name == "report":
        return {"bypass_csp": True}  # its policy lets no script run, not even axe-core's timers
    return {"storage_state": request.getfixturevalue("operator")} if name in FOR_OPERATORS else {}


def test_every_page_is_visited():
    view_names = {pattern.name for pattern in (*monitor.web.urls.urlpatterns, *monitor.reports.urls.urlpatterns)}

    assert view_names == PAGES.keys() | NOT_PAGES


def test_rtts_on_every_page_are_those_of_the_scenario(browser, served, path_ids):
    rtts = {pair: {} for pair in PAIRS}
    with visiting(browser) as visit:
        page = visit.page
        visit.open(f"{served}/?metric=rtt&period=hour")
        for source, destination in PAIRS:
            cell = page.get_by_role("link", name=f"{source} to {destination}:")
            rtts[source, destination]["grid"] = cell.get_attribute("aria-label")
        visit.open(f"{served}/table/?metric=rtt_median_ms&tick=hour")
        for row in page.locator("#table-body tr").all():
            source, destination = row.locator("th").all_inner_texts()[:2]
            rtts[source, destination]["table"] = row.locator("td").nth(1).inner_text()
        for site in SCENARIO.site_names:
            visit.open(f"{served}/sites/{site}/")
            for pair in (pair for pair in PAIRS if pair[0] == site):
                row = page.locator("#ways tr").filter(has=page.get_by_role("rowheader", name=pair[1], exact=True))
                rtts[pair]["site"] = row.locator("td").nth(1).inner_text()
        for pair in PAIRS[:2]:
            visit.open(f"{served}/paths/{path_ids[pair]}/")
            rtts[pair]["path"] = (
                page.locator(".tiles div").filter(has_text="median RTT").locator("dd").first.inner_text()
            )

    for pair, texts in rtts.items():
        shown_ms = {name: float(re.search(r"([0-9.]+) ms", text)[1]) for name, text in texts.items()}
        assert shown_ms == dict.fromkeys(texts, pytest.approx(rtt_ms(pair), abs=2.0))
        assert {"grid", "table", "site"} <= texts.keys()
    assert visit.wrong == []


def test_loss_is_within_the_interval_of_the_scenario(browser, served, path_ids):
    lossy = max(PAIRS, key=loss_ratio)
    lossless = min(PAIRS, key=loss_ratio)
    with visiting(browser) as visit:
        visit.open(f"{served}/?metric=loss&period=hour")
        cells = {pair: visit.page.locator(f"#p{path_ids[pair]}").get_attribute("aria-label") for pair in PAIRS}
        tiles = {}
        for pair in (lossy, lossless):
            visit.open(f"{served}/paths/{path_ids[pair]}/?period=hour")
            tiles[pair] = visit.page.locator(".tiles div").first.locator(".aside").inner_text()

    for pair, text in tiles.items():
        lost, sent = map(int, re.match(r"(\d+) of (\d+)\b", text.replace(",", "")).groups())
        least, most = binom.interval(0.9999, sent, loss_ratio(pair))
        assert least <= lost <= most
    assert {pair for pair in PAIRS if not re.search("no loss|no round trip lost", cells[pair])} <= {
        pair for pair in PAIRS if loss_ratio(pair) > 0
    }


def test_the_table_keeps_its_selection_and_sorts_both_ways(browser, served):
    with visiting(browser) as visit:
        page = visit.page
        visit.open(f"{served}/table/")
        page.locator("select[name=metric]").select_option(label="median RTT")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("group", name="each").get_by_role("link", name="hour").click()
        page.get_by_role("group", name="packet").get_by_role("link", name="1000 B").click()
        page.get_by_role("columnheader", name="median").get_by_role("link").click()
        chosen = page.evaluate("() => Object.fromEntries(new URLSearchParams(location.search))")
        slowest_first = page.locator("#table-body tr").all_inner_texts()
        page.get_by_role("columnheader", name="median").get_by_role("link").click()
        order = page.get_by_role("columnheader", name="median").get_attribute("aria-sort")
        fastest_first = page.locator("#table-body tr").all_inner_texts()
        page.locator("select[name=from]").select_option("rome")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**from=rome**")
        of_rome = page.locator("#table-body tr").all_inner_texts()

    pairs = sorted(PAIRS, key=rtt_ms)
    pairs_in_order = [tuple(row.split()[:2]) for row in fastest_first]
    assert chosen | {"metric": "rtt_median_ms", "tick": "hour", "size": "1000", "sort": "median"} == chosen
    assert [rtt_ms(pair) for pair in pairs_in_order] == [rtt_ms(pair) for pair in pairs]
    assert [rtt_ms(tuple(row.split()[:2])) for row in slowest_first] == [rtt_ms(pair) for pair in reversed(pairs)]
    assert order == "ascending"
    assert {tuple(row.split()[:2]) for row in of_rome} == {pair for pair in PAIRS if pair[0] == "rome"}


def test_the_grid_shows_the_selected_metric_period_and_size(browser, served):
    with visiting(browser) as visit:
        page = visit.page
        visit.open(served)
        before = page.locator("#matrix caption").inner_text()
        page.get_by_role("group", name="metric").get_by_role("link", name="median RTT").click()
        page.get_by_role("group", name="period").get_by_role("link", name="hour").click()
        page.click("#view summary")
        page.get_by_role("group", name="packet").get_by_role("link", name="1000 B").click()
        page.wait_for_url("**size=1000**")
        after = page.locator("#matrix caption").inner_text()
        page.click("#view summary")
        chosen = page.locator("#choices [aria-current=true]:visible").all_inner_texts()

    assert before.startswith("Loss from each site")
    assert "in the last 10 min or three cycles, whichever is longer, packets of 100 bytes" in before
    assert after.startswith("Median RTT from each site")
    assert "in the last hour, packets of 1000 bytes" in after
    assert chosen == ["median RTT", "hour", "value", "1000 B", "by site", "all", "figures"]


def test_the_keyboard_moves_through_the_grid_and_opens_a_path(browser, served, path_ids):
    with visiting(browser) as visit:
        page = visit.page
        visit.open(served)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.closest('#matrix-body td') !== null"):
                break
        cells = [page.evaluate("() => document.activeElement.id")]
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
            page.keyboard.press(key)
            cells.append(page.evaluate("() => document.activeElement.id"))
        read = page.locator("#readout").inner_text()
        page.keyboard.press("Enter")
        page.wait_for_url("**/paths/**")
        heading = page.get_by_role("heading", level=1).inner_text()

    # Rows and columns are sorted by name. No site measures to itself: there is nothing below boston to rome, and left
    # of it boston itself is skipped.
    ways = [("bern", "boston"), ("bern", "rome"), ("boston", "rome"), ("boston", "rome"), ("boston", "bern")]
    assert cells == [f"p{path_ids[way]}" for way in ways]
    assert read.startswith("boston to bern:")
    assert heading.split() == ["boston", "→", "bern"]


def test_dragging_over_a_chart_zooms_and_back_undoes_it(browser, served, stack, path_id):
    first = datetime.fromisoformat(stack.get(f"paths/{path_id}/series")["points"][0]["at"])
    with visiting(browser) as visit:
        page = visit.page
        visit.open(f"{served}/paths/{path_id}/")
        box = page.locator("[data-chart=rtt-spec] canvas").bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.3 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], middle, steps=4)
        page.mouse.up()
        page.wait_for_url("**since=**")
        page.wait_for_function(DRAWN)
        query = page.evaluate("() => Object.fromEntries(new URLSearchParams(location.search))")
        shown_since = page.get_by_label("Period").get_by_label("from").input_value()
        page.go_back()
        page.wait_for_url(re.compile(r"/paths/\d+/$"))
        page.wait_for_function(DRAWN)

    since, until = (datetime.fromisoformat(query[name]).replace(tzinfo=UTC) for name in ("since", "until"))
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    shown = max(now - first, 5 * minute)
    # The drag covers half of the canvas, axis included. The chart begins with the first data, or five minutes ago.
    assert 0.45 * shown - minute <= until - since <= 0.65 * shown + minute
    assert now - shown - minute <= since < until < now
    assert shown_since == query["since"]
    assert visit.wrong == []


def test_compare_adds_and_removes_paths(browser, served, path_ids):
    with visiting(browser) as visit:
        page = visit.page
        visit.open(f"{served}/compare/")
        for source, destination in (("bern", "rome"), ("rome", "boston")):
            page.locator("select[name=from]").select_option(source)
            page.locator("select[name=to]").select_option(destination)
            page.get_by_role("button", name="Add").click()
            page.locator(".compared").get_by_text(f"{source} → {destination}").wait_for()
        page.wait_for_function(DRAWN)
        added = page.evaluate("() => new URLSearchParams(location.search).getAll('path').map(Number)")
        drawn = page.locator("[data-chart] canvas").count()
        page.get_by_role("link", name="remove bern to rome").click()
        page.get_by_text("bern → rome").wait_for(state="detached")
        page.locator(".compared li").first.wait_for()  # the page is loaded anew
        remaining = page.locator(".compared li").all_inner_texts()

    assert added == [path_ids["bern", "rome"], path_ids["rome", "boston"]]
    assert drawn == 2
    assert [line.split(" remove")[0].strip() for line in remaining] == ["rome → boston"]
    assert visit.wrong == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param("/nowhere/", "No page at this address.", id="address"),
        pytest.param("/?metric=colour", "choose one of loss, rtt", id="metric"),
        pytest.param("/?size=7", "there are 100, 1000", id="packet size"),
        pytest.param("/table/?tick=fortnight", "choose one of hour, day", id="tick"),
        pytest.param("/incidents/?state=lost", "choose one of", id="state"),
        pytest.param("/paths/4711/", "the grid links to those that there are", id="path"),
        pytest.param("/sites/atlantis/", "/sites/ lists those that there are", id="site"),
        pytest.param("/reports/2001-W01", "/reports/ lists those that there are", id="report"),
        pytest.param("/compare/?from=bern&to=atlantis", "choose two sites of the grid", id="pair"),
        pytest.param("/paths/1/?since=soon", "give a moment in UTC, like since=2026-11-20T12:00", id="moment"),
    ],
)
def test_an_error_page_has_a_fix_and_links(browser, served, wrong, message):
    with visiting(browser) as visit:
        answer = visit.page.goto(served + wrong)
        text = visit.page.locator("main").inner_text()
        unreadable = wrong_for_readers(visit.page) if wrong in UNLIKE_ERRORS else []
        visit.page.get_by_role("link", name="To the grid").click()
        visit.page.locator("#matrix").wait_for()

    assert answer.status == 404
    assert text.startswith("Not found")
    assert message in text
    assert unreadable == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_fits_is_accessible_and_prints(request, browser, served, name):
    place = address(request, name)
    wrong = {}
    with visiting(browser, **of_visitor(request, name)) as visit:
        visit.open(served + place)
        transferred_bytes = visit.transferred_bytes()
        if name not in ON_PLANTED_ROWS:
            wrong = wrong_on_screens_and_paper(visit, is_printed=name not in NOT_PRINTED)

    assert visit.wrong == []
    assert 0 < transferred_bytes < MOST_BYTES
    assert not any(wrong.values()), wrong


def wrong_on_screens_and_paper(visit, *, is_printed):
    """Parts that are too wide, unreadable or useless on the desktop, on a phone and on paper, in light and in dark."""
    page = visit.page
    wrong = {"desktop": [*too_wide(page), *wrong_for_readers(page)]}
    dark(visit)
    wrong["desktop, dark"] = [*too_wide(page), *wrong_for_readers(page, "color-contrast")]
    page.set_viewport_size({"width": PHONE_PX, "height": 900})
    page.wait_for_function(DRAWN)
    wrong["phone, dark"] = too_wide(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(DRAWN)
    wrong["phone"] = [*too_wide(page), *wrong_for_readers(page, *PHONE_RULES)]
    if is_printed:
        page.set_viewport_size({"width": A4_PX, "height": 900})
        page.emulate_media(media="print")
        wrong["paper"] = [*too_wide(page), *wrong_for_readers(page, "color-contrast")]
        left_over = page.locator(FOR_THE_SCREEN)
        wrong["left over on paper"] = [element.evaluate("element => element.outerHTML") for element in left_over.all()]
        paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
    return wrong


def dark(visit):
    visit.page.emulate_media(color_scheme="dark")
    visit.page.wait_for_function(DRAWN)


def test_throughput_is_within_the_rates_of_the_scenario(browser, served, tested_path_id):
    with visiting(browser) as visit:
        visit.open(f"{served}/throughput/")
        rows = visit.page.locator("#rows tr:not(.said)").all_inner_texts()

    fastest = {}
    for row in rows:
        source, _, destination, *cells = row.split()
        rates = re.findall(r"([\d.]+) ([kMG])bit/s", " ".join(cells))
        if rates:
            fastest[source, destination] = float(rates[-1][0]) * {"k": 1e-3, "M": 1.0, "G": 1e3}[rates[-1][1]]
    assert ("bern", "rome") in fastest
    assert {pair: mbps for pair, mbps in fastest.items() if mbps > SCENARIO.paths[pair].rate_mbps * 1.02} == {}


def test_the_loss_of_the_scenario_appears_without_a_reload(watching, incident_id):
    page = watching.page
    page.wait_for_selector(f'[data-incident="{incident_id}"]')

    incident_text = page.locator(f'[data-incident="{incident_id}"]').inner_text()
    assert "boston" in incident_text
    assert "bern" in incident_text
    assert page.evaluate("() => window.kept") == "since the beginning"
    assert watching.wrong == []


def test_incidents_are_filtered(browser, served, incident_id):
    with visiting(browser) as visit:
        page = visit.page
        row = page.locator(f'[data-incident="{incident_id}"]')
        visit.open(f"{served}/incidents/")
        counts = {"open": row.count()}
        page.get_by_role("group", name="state").get_by_role("link", name="resolved").click()
        page.wait_for_url("**state=resolved**")
        counts["resolved"] = row.count()
        page.get_by_role("group", name="state").get_by_role("link", name="all").click()
        page.wait_for_url("**state=all**")
        for site in ("boston", "rome"):
            page.locator("select[name=site]").select_option(site)
            page.get_by_role("button", name="Show").click()
            page.wait_for_url(f"**site={site}**")
            counts[site] = row.count()
        nothing = page.get_by_role("heading", level=2).inner_text()
        page.get_by_role("link", name="Show all open").click()
        page.wait_for_selector(f'[data-incident="{incident_id}"]')

    assert counts == {"open": 1, "resolved": 0, "boston": 1, "rome": 0}
    assert nothing == "No matching incidents"
