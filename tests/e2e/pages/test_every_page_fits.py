"""Every page at the width of a laptop, of a phone and of paper, in light and in dark: nothing is cut off, and axe is
content."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.utils import timezone
from msgspec import structs

from monitor.api.centre.summary import CentreOut, centre_fields
from monitor.archive import throughput_sweeps
from monitor.archive.models import AggregateRun, SweepCell, ThroughputSweep
from monitor.archive.throughput_sweeps import Settings
from monitor.archive.upkeep import freshness
from monitor.centres.configured import OtherCentre
from monitor.centres.models import CentreAnswer
from monitor.overview.mesh_state import load_mesh_state
from tests.db.aggregate_rows import aggregate_run
from tests.db.incident_rows import lossy, watched
from tests.db.pages_mesh import hour, throughput
from tests.db.throughput_runs import store_lab_run
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.visits import A4_PX, DRAWN, FOR_THE_SCREEN, too_wide, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
SAID = {"duration_s": 10.0, "start_s": 0.2, "too_short": False, "wanted_s": 2.0}
VERDICT = "window-limited at 940 Mbit/s: the receiver's window of 3 MB is 1.0 times the bandwidth-delay product"
PAGES = (
    "/sites/", "/sites/slac/", "/incidents/", "/throughput/", "/table/", "/completeness/", "/maintenance/", "/reports/",
    "/paths/", "/records/", "/sweeps/", "/aggregates/", "/search/?q=c&all=1", "/settings/", "/calculator/", "/routes/",
    "/centres/",
)  # fmt: skip
RULES = {"desktop": (), "phone": ("target-size", "scrollable-region-focusable"), "dark": ("color-contrast",)}
"""The rules of axe on each screen: all of them once, elsewhere those that depend on size or colour."""
CUT_OFF = """() => {
  const names = [];
  for (const element of document.querySelectorAll("#main *, .top *")) {
    const style = getComputedStyle(element);
    if (element.closest(".unseen, .matrix-frame") !== null || element.clientWidth === 0) continue;
    if (element.matches(".tabs") && innerWidth < 400) continue;
    const hides = style.overflowX !== "visible" && style.display !== "inline";
    if (hides && element.scrollWidth > element.clientWidth + 1) names.push(`${element.tagName}.${element.className}`);
  }
  return names;
}"""
"""Elements with content beyond their edge, which nobody sees without scrolling sideways. Tabs scroll on a phone."""


@pytest.fixture
def measured(settings):
    paths = watched()
    settings.OTHER_CENTRES = (
        OtherCentre("asia", "https://asia.example", ""), OtherCentre("europe", "https://europe.example", "")
    )  # fmt: skip
    now = timezone.now().replace(microsecond=0)
    for number, path in enumerate(paths.values()):
        for hours in range(1, 25):
            at = (now - timedelta(hours=hours)).replace(minute=0, second=0)
            hour(path, 600, 600 - number, 150.0 + number, hour=at)
        for hours in range(1, 6):
            throughput(
                path, now - timedelta(hours=hours), 940e6 * number if number else None, streams=4, retransmits=12,
                verdict="window-limited" if number else None, sentence=VERDICT if number else None,
                diagnosis=SAID if number else None,
            )  # fmt: skip
    lossy(paths["slac → cern"], now)
    grid = throughput_sweeps.settings_of(Settings(duration_s=2), (256 * 1024, 1024**2), (1, 4))
    sweep_id = throughput_sweeps.create(paths["slac → cern"], grid, name="slac to cern", by="somebody", now=now)
    cells = SweepCell.objects.filter(sweep=sweep_id)
    cells.filter(place__lte=2).update(
        outcome="measured", throughput_bps=20.9e6, measured_at=now, idle_rtt_ms=100.0, verdict="window-limited"
    )
    cells.filter(place=3).update(outcome="busy", detail="the server served somebody else")
    store_lab_run(paths["slac → cern"], "queue", now - timedelta(minutes=20), now)
    scheduled_sweep(paths["slac → cern"], now)
    members, others = list(paths.values())[:3], list(paths.values())[3:]
    aggregate_run(members, now - timedelta(hours=2), others=others)
    aggregate_run(members, now - timedelta(hours=1), missing=1, others=others)
    other_centres()
    return paths


def other_centres():
    """A centre that answers with this one's own summary, and one that did so an hour ago."""
    now = timezone.now()
    state = load_mesh_state(freshness.load(), now)
    summary = CentreOut.model_validate(centre_fields(state, now)).model_dump(mode="json")
    answer = {"url": "https://europe.example", "asked_at": now, "answered_at": now, "summary": summary}
    CentreAnswer.objects.create(name="europe", **answer)
    answer |= {"url": "https://asia.example", "answered_at": now - timedelta(hours=1), "problem": "it is away"}
    CentreAnswer.objects.create(name="asia", **answer)


def scheduled_sweep(path, now):
    """A fortnight of rounds of four settings, of which the larger window wins in the morning only."""
    grid = throughput_sweeps.settings_of(Settings(), (256 * 1024, 4 * 1024**2), (1, 4), [], [1400, 8960])
    parameters = [structs.asdict(setting) for setting in grid]
    rounds = ThroughputSweep.objects.bulk_create(
        ThroughputSweep(
            path_id=path.pk, name="settings", schedule="settings", asked_by="mesh.toml",
            asked_at=now - timedelta(hours=8 * number + 8), problem=None if number else "budget.path: used up",
        )
        for number in range(42)
    )  # fmt: skip
    chance = random.Random(1)
    SweepCell.objects.bulk_create(
        SweepCell(
            sweep=sweep, place=place, parameters=setting, outcome="measured", segment_bytes=1388,
            measured_at=(at := sweep.asked_at + timedelta(hours=place)),
            throughput_bps=(90e6 if setting["window_bytes"] > 300_000 and at.hour < 12 else 30e6)
            * chance.lognormvariate(0, 0.05),
        )
        for sweep in rounds
        for place, setting in enumerate(chance.sample(parameters, len(parameters)))
    )  # fmt: skip


def on_paper(page, screen):
    """Faults of the page in print, on A4 between margins of 10 mm."""
    width, height, _ = SCREENS[screen]
    page.set_viewport_size({"width": A4_PX, "height": 900})
    page.emulate_media(media="print")
    wrong = [f"on paper: {element}" for element in [*too_wide(page), *wrong_for_readers(page, "color-contrast")]]
    wrong += [f"left over on paper: {element}" for element in page.locator(FOR_THE_SCREEN).all_inner_texts()]
    if page.evaluate("() => getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)":
        wrong.append("the paper is not white")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": width, "height": height})
    return wrong


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_fits_and_is_accessible(browser, served, measured, screen):
    page = logged_in(browser, served, "/sites/", screen)
    compare = "&".join(f"path={path.pk}" for path in list(measured.values())[:3])
    wrong = {}

    path, sweep = measured["slac → cern"], ThroughputSweep.objects.get(schedule=None)
    run = AggregateRun.objects.get(state="partial")
    of_path = f"/paths/{path.pk}/?period=hour", f"/paths/{path.pk}/?tab=settings&period=day"
    for address in (*PAGES, f"/sweeps/{sweep.pk}/", f"/aggregates/{run.pk}/", *of_path, f"/compare/?{compare}"):
        page.goto(served + address)
        page.wait_for_function(DRAWN)
        shot(page, f"page-{address.split('&')[0].strip('/').replace('/', '-').replace('?', '-')}-{screen}")
        problems = [*wrong_for_readers(page, *RULES[screen]), *page.evaluate(CUT_OFF), *too_wide(page)]
        if screen == "desktop":
            problems += on_paper(page, screen)
        if problems:
            wrong[address] = problems

    assert wrong == {}
    assert page.said == []
