"""The pages of incidents in a real browser: new incidents appear without a reload, nothing moves, the focus stays, the
keyboard suffices, and accessibility is correct in light, in dark and on a phone."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.utils import timezone

from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import AuditRecord, Incident, IncidentTurn, QuietPeriod
from monitor.mesh.models import Group
from tests.db.incident_rows import HOUR, lossy, watched
from tests.db.pages_mesh import throughput
from tests.e2e.pages.screens import SCREENS, logged_in, open_page, refreshed, shot
from tests.e2e.visits import wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
CUT_OFF = "(frames) => frames.filter((frame) => frame.scrollWidth > frame.clientWidth).map((frame) => frame.id)"


@pytest.fixture
def paths():
    return watched()


def unfold(page):
    for fold in page.locator("details.part").all():
        fold.locator("summary").first.click()


def now() -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.mark.parametrize("address", ["/", "/incidents/"])
def test_an_incident_appears_without_a_reload_or_shift(browser, served, paths, address):
    earlier = lossy(paths["slac → fnal"], now())
    page = open_page(browser, served + address)
    page.evaluate("() => { window.kept = 'since the beginning'; }")
    link = page.locator(f"#i{earlier.pk}")
    link.focus()
    before = page.evaluate("() => window.scrollY")

    planted = lossy(paths["cern → slac"], now())
    refreshed(page)

    assert page.locator(f'[data-incident="{planted.pk}"]').is_visible()
    assert page.evaluate("() => window.kept") == "since the beginning", "the page was loaded again"
    assert page.evaluate("() => document.activeElement.id") == f"i{earlier.pk}"
    assert page.evaluate("() => window.scrollY") == before
    assert page.locator("#news").inner_text() == f"New incident: {planted.cause}."
    assert page.said == []


def test_the_page_refreshes_by_itself(browser, served, paths):
    page = open_page(browser, f"{served}/incidents/")

    planted = lossy(paths["cern → slac"], now())

    page.wait_for_selector(f'[data-incident="{planted.pk}"]')
    assert "ago" in page.locator(".freshness time").inner_text()


def test_an_end_and_an_unreachable_centre_are_announced(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    page = open_page(browser, f"{served}/incidents/?state=all")

    lifecycle.close(incident.pk, [(paths["slac → cern"].pk, "loss")], "over", now())
    refreshed(page)
    announcement = page.locator("#news").inner_text()
    page.context.set_offline(True)
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("() => document.getElementById('status').textContent !== ''")

    assert announcement == f"Incident resolved: {incident.cause}."
    assert page.locator("#status").inner_text().startswith("Not updated: the centre does not answer. Last update")


def test_with_reduced_motion_nothing_moves(browser, served, paths):
    page = open_page(browser, f"{served}/incidents/", reduced_motion="reduce")
    lossy(paths["slac → cern"], now())
    refreshed(page)

    styles = page.evaluate(
        "() => { const found = getComputedStyle(document.querySelector('li.new'));"
        " return [found.animationName, found.outlineStyle]; }"
    )

    assert styles == ["none", "solid"]


def test_selections_and_input_survive_a_refresh(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    page = logged_in(browser, served, f"/incidents/{incident.pk}/")
    unfold(page)
    page.fill("#id_text", "I am writing this")
    page.evaluate("() => getSelection().selectAllChildren(document.getElementById('ticket'))")

    lifecycle.correct(incident.pk, "it was less", now())
    refreshed(page)

    assert page.input_value("#id_text") == "I am writing this"
    assert "For a ticket" not in page.evaluate("() => String(getSelection())")
    assert len(page.evaluate("() => String(getSelection())")) > 100
    assert "it was less" in page.locator("#history").inner_text()


def test_the_ticket_is_copied(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    page = open_page(browser, f"{served}/incidents/{incident.pk}/", permissions=["clipboard-read", "clipboard-write"])

    unfold(page)
    page.click("[data-copy]")
    page.wait_for_function("() => document.getElementById('copied').textContent !== ''")

    assert page.locator("#copied").inner_text() == "Copied."
    copied = page.evaluate("() => navigator.clipboard.readText()")
    # Not all of it: the figures of the last hour keep changing.
    assert copied.startswith("cern ↔ slac loses about 20% since")
    assert copied.splitlines()[:3] == page.locator("#ticket").text_content().splitlines()[:3]
    assert "slac → cern: 192.0.2.1 to 192.0.2.2, IPv4" in copied
    assert page.said == []


def test_the_keyboard_acknowledges_and_schedules_maintenance(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    page = logged_in(browser, served, f"/incidents/{incident.pk}/")

    page.locator("#acknowledge").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=acknowledged by")
    page.goto(f"{served}/maintenance/?site=cern")
    page.locator("#id_reason").focus()
    page.keyboard.type("new router")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=new router")

    assert Incident.objects.get().acknowledged_by == "les-desktop"
    assert QuietPeriod.objects.get().site.name == "cern"
    assert AuditRecord.objects.count() == 2


def test_times_show_the_local_time_on_hover(browser, served, paths):
    incident = lossy(paths["slac → cern"], datetime.fromisoformat("2026-07-01T12:00:00+00:00"))
    page = open_page(browser, f"{served}/incidents/")

    title = page.locator(f'[data-incident="{incident.pk}"] time').first.get_attribute("title")

    assert "2026-07-01 11:50:00 UTC" in title, "its onset: the first lossy burst"
    assert "13:50" in title or "1:50:00 PM" in title, "Zurich is two hours ahead in summer"


def test_times_in_a_sentence_show_the_local_time_too(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    IncidentTurn.objects.update(note="loss from 2026-07-01 12:00 UTC to 2026-07-01 12:05:30 UTC & on")
    page = open_page(browser, f"{served}/incidents/{incident.pk}/")

    unfold(page)
    sentence = page.locator("#history .said").first
    titles = [element.get_attribute("title") for element in sentence.locator("time").all()]

    assert sentence.inner_text() == "loss from 2026-07-01 12:00 UTC to 2026-07-01 12:05:30 UTC & on"
    assert [title.split(";")[0] for title in titles] == ["2026-07-01 12:00:00 UTC", "2026-07-01 12:05:30 UTC"]


def look_again(page):
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")


def test_an_empty_page_fills_by_itself(browser, served, paths):
    page = open_page(browser, f"{served}/throughput/")
    assert "No throughput test in the last day" in page.locator("#waits").inner_text()

    throughput(paths["slac → cern"], now(), 94e6)
    look_again(page)

    page.wait_for_selector("#rows")
    assert "94 Mbit/s" in page.locator("#rows").inner_text()
    assert page.said == []


def test_new_parts_wait_while_a_form_is_edited(browser, served, paths):
    path = paths["slac → cern"]
    page = open_page(browser, f"{served}/paths/{path.pk}/")
    as_served = page.input_value("[name=since]")
    page.locator(".custom summary").click()
    page.fill("[name=since]", "2026-01-01T00:00")

    throughput(path, now(), 94e6)
    refreshed(page)
    assert page.input_value("[name=since]") == "2026-01-01T00:00"
    assert page.locator("#transfer").count() == 0
    page.fill("[name=since]", as_served)
    look_again(page)

    page.wait_for_selector("#transfer")
    assert page.said == []


def test_new_parts_appear_while_no_form_is_edited(browser, served, paths):
    path = paths["slac → cern"]
    page = logged_in(browser, served, f"/paths/{path.pk}/")
    assert page.locator("[type=checkbox]").count() > 0

    throughput(path, now(), 94e6)
    look_again(page)

    page.wait_for_selector("#transfer")


def test_text_that_is_not_a_time_is_left_unchanged(browser, served, paths):
    incident = lossy(paths["slac → cern"], now())
    IncidentTurn.objects.update(note="until 2026-07-01 25:00 UTC, not 2026-07-01 12:00 UTC")
    page = open_page(browser, f"{served}/incidents/{incident.pk}/")

    unfold(page)
    times = page.locator("#history .said").first.locator("time").all_inner_texts()

    assert times == ["2026-07-01 12:00"]
    assert page.said == []


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_fit_and_are_accessible(browser, served, paths, screen):
    at = now()
    incident = lossy(paths["slac → cern"], at)
    lifecycle.correct(incident.pk, "slac → cern: with results that came late loss 9%, which proves the same", at)
    actions.maintain(
        actions.QuietScope(group=Group.objects.get()), at - HOUR, at + HOUR, "new router", "ann", at, every=24 * HOUR
    )
    actions.silence(actions.QuietScope(path=paths["slac → cern"]), at + HOUR, "the provider knows", "ann", at)
    page = logged_in(browser, served, "/incidents/", screen)

    for name, address in {
        "list": "/incidents/",
        "incident": f"/incidents/{incident.pk}/",
        "maintenance": "/maintenance/?site=cern",
        "audit": "/audit/",
        "grid": "/",
    }.items():
        page.goto(served + address)
        shot(page, f"{name}-folded-{screen}")
        unfold(page)
        page.wait_for_function(
            "() => [...document.querySelectorAll('[data-chart]')].every((chart) => chart.querySelector('canvas'))"
        )
        shot(page, f"{name}-{screen}")
        assert wrong_for_readers(page) == [], name
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
        cut_off = page.locator(".scrolls:has(> table)").evaluate_all(CUT_OFF)
        assert cut_off == [], f"{name} has tables with a column beyond the edge"
    assert page.said == []
