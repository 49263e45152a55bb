"""The grid of 36 sites in a browser, compact and drawn: keyboard, tooltip, refresh without a new page, folding."""

from __future__ import annotations

import pytest
from django.utils import timezone

from monitor.mesh.models import Site
from monitor.web.pages.grid import contents
from tests.db.pages_mesh import MINUTE, burst, make_mesh
from tests.e2e.pages.screens import open_page, refreshed, shot
from tests.e2e.visits import wrong_for_readers
from tests.facts import lacks

pytestmark = pytest.mark.django_db(transaction=True)
CLEAN, LOSSY = [10.0] * 10, [10.0] * 4 + [None] * 6


@pytest.fixture
def paths():
    paths = make_mesh(tuple(f"site-{number:02}" for number in range(36)), timezone.now())
    Site.objects.filter(name__lt="site-18").update(region="Europe")
    at = timezone.now() - MINUTE
    for ends in (("site-00", "site-01"), ("site-01", "site-00"), ("site-35", "site-34")):
        burst(paths[ends], at, *CLEAN)
    burst(paths["site-20", "site-03"], at, *LOSSY)
    return paths


def test_compact_cells_refresh_and_keep_the_focus(browser, served, paths):
    page = open_page(browser, served)
    page.evaluate("() => { window.kept = true; }")
    clean, lossy = (page.locator(f"#p{paths[ends].pk}") for ends in (("site-00", "site-01"), ("site-20", "site-03")))
    assert (clean.inner_text(), lossy.inner_text()) == ("", "!")
    clean.focus()
    before = clean.bounding_box()

    burst(paths["site-00", "site-01"], timezone.now() - 2 * MINUTE, *LOSSY)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    refreshed(page)

    assert clean.inner_text() == "!"
    assert "6 of 20 lost" in clean.get_attribute("aria-label")
    assert page.evaluate("() => window.kept && document.activeElement.id") == f"p{paths['site-00', 'site-01'].pk}"
    assert clean.bounding_box() == before, "the layout moved"
    fetched = {url.partition(served)[2].partition("&since")[0] for url in requests}
    assert fetched == {"/?&parts=1", "/grid/changes?"}, "the page was fetched with its matrix"
    page.keyboard.press("ArrowRight")
    assert page.locator("#readout").inner_text().startswith("site-00 to site-02: no data")
    shot(page, "grid-compact")
    assert wrong_for_readers(page) == []
    assert page.said == []


@pytest.mark.parametrize("screen", ["desktop", "dark", "phone"])
def test_the_view_opens_keeps_what_is_chosen_and_closes(browser, served, paths, screen):
    page = open_page(browser, served, screen)
    if screen == "phone":
        page.click("#fold-choices summary")
    page.click("#legend summary")
    shot(page, f"grid-legend-{screen}")
    page.click("#view summary")
    assert page.locator("#legend").get_attribute("open") is None, "one menu is open at a time"
    refreshed(page)
    shot(page, f"grid-view-{screen}")
    wrong = wrong_for_readers(page)
    page.locator("#view a", has_text="problems").click()
    page.goto(served)

    assert page.url.endswith("/?paths=problems")
    if screen == "phone":
        page.click("#fold-choices summary")
    assert page.locator("#view summary").inner_text() == "View: problems"
    page.click("#view summary")
    page.keyboard.press("Escape")
    assert page.locator("#view").get_attribute("open") is None
    assert wrong == []
    assert page.said == []


@pytest.mark.parametrize("screen", ["desktop", "dark"])
def test_a_drawn_grid_tells_its_cells_and_opens_a_path(browser, served, paths, monkeypatch, screen):
    monkeypatch.setattr(contents, "DRAWN_FROM_CELLS", 1000)
    page = open_page(browser, served, screen)
    page.wait_for_selector("#drawn[data-cells='1296']")
    box, frame = page.locator("#drawn").bounding_box(), page.locator("#drawn-frame").bounding_box()
    assert 0.5 * 900 < box["height"] <= frame["height"] < 0.75 * 900, "all rows are seen at once"

    page.locator("#drawn").focus()
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.getElementById('readout').textContent.includes('no data')")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.getElementById('readout').textContent.includes('0 of 10')")
    told = page.locator(".drawn-tip").inner_text()
    shot(page, f"grid-drawn-{screen}")
    wrong = wrong_for_readers(page)
    before = page.evaluate("() => document.getElementById('drawn').toDataURL()")
    burst(paths["site-00", "site-01"], timezone.now() - 2 * MINUTE, *LOSSY)
    refreshed(page)
    after = page.evaluate("() => document.getElementById('drawn').toDataURL()")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/paths/{paths['site-00', 'site-01'].pk}/**")

    assert lacks(told, "site-00 to site-01", "no loss", "0 of 10", "below 30%") == []
    assert before != after
    assert wrong == []
    assert page.said == []


def test_without_javascript_a_large_grid_has_list_and_regions(browser, served, paths, monkeypatch):
    monkeypatch.setattr(contents, "DRAWN_FROM_CELLS", 1000)
    page = open_page(browser, served, java_script_enabled=False)

    assert "site-20 → site-03" in page.locator("#worst").inner_text()
    page.goto(f"{served}/?order=region&fold=*")
    assert page.locator("#matrix-body td").count() == 4
    page.locator("#matrix-body th a", has_text="Europe").click()
    assert page.locator("#matrix-body tr").count() == 19
