"""The header of every page in a real browser: its menu, its search, the theme, with the keyboard and on a phone."""

from __future__ import annotations

import pytest

from tests.db.incident_rows import watched
from tests.e2e.pages.screens import SCREENS, logged_in, open_page, shot
from tests.e2e.visits import wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
FOCUS = "() => document.activeElement.textContent.trim()"
GROUND = "() => getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def paths():
    return watched()


def test_the_keyboard_opens_and_closes_more(browser, served, paths):
    page = open_page(browser, f"{served}/sites/")
    menu = page.locator("#more")

    page.locator("#more summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = page.evaluate(FOCUS)
    page.keyboard.press("Escape")
    closed, back = menu.get_attribute("open"), page.evaluate(FOCUS)
    page.keyboard.press("Enter")
    page.mouse.click(5, 600)

    assert inside == "Routes"
    assert (closed, back) == (None, "More")
    assert menu.get_attribute("open") is None, "a click elsewhere closes it"


def test_a_letter_opens_its_page_and_a_question_mark_lists_them(browser, served, paths):
    page = open_page(browser, served)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    assert keys.locator("p").all_inner_texts() == [
        *("g Grid", "i Incidents", "s Sites", "t Throughput", "m Map", "r Reports", "/ Search", "? Keys")
    ]
    shot(page, "keys-desktop")
    wrong = wrong_for_readers(page)
    page.keyboard.press("Escape")
    page.locator("#search input").fill("")
    page.keyboard.type("i")
    assert page.locator("#search input").input_value() == "i", "a letter is typed where one writes"
    page.locator("h1").first.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("i")
    page.wait_for_url("**/incidents/")

    assert keys.count() == 0
    assert wrong == []
    assert page.said == []


def test_the_theme_is_the_chosen_and_not_the_systems(browser, served, paths):
    page = open_page(browser, f"{served}/settings/", "dark")
    of_system = page.evaluate(GROUND)
    page.select_option("#id_theme", "light")
    page.click(".settings button")
    page.wait_for_selector("html[data-theme=light]")
    light = page.evaluate(GROUND)
    page.select_option("#id_theme", "dark")
    page.click(".settings button")
    page.wait_for_selector("html[data-theme=dark]")

    assert (of_system, light) == ("rgb(16, 22, 28)", "rgb(246, 248, 249)")
    assert page.evaluate(GROUND) == of_system
    assert page.locator("[role=status] >> text=Saved.").is_visible()
    page.emulate_media(media="print")
    assert page.evaluate(GROUND) == "rgb(255, 255, 255)", "paper is white"
    assert page.said == []


def test_the_keyboard_searches_and_opens_a_path(browser, served, paths):
    page = open_page(browser, f"{served}/sites/")
    field = page.locator("#search input")

    page.keyboard.press("/")
    page.keyboard.type("slac ce")
    page.wait_for_selector("#suggestions [role=option]")
    shot(page, "suggestions-desktop")
    unmarked = wrong_for_readers(page)
    page.keyboard.press("ArrowDown")
    chosen = field.get_attribute("aria-activedescendant")
    label = page.locator(f"#{chosen} .label").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{served}/paths/{paths['slac → cern'].pk}/")

    assert unmarked == []
    assert (label, page.said) == ("slac → cern", [])


def test_escape_closes_the_suggestions_and_a_slash_is_typed(browser, served, paths):
    page = open_page(browser, f"{served}/table/")
    field = page.locator("#search input")
    page.keyboard.press("/")
    page.keyboard.type("slac/")
    typed = field.input_value()
    page.keyboard.press("Backspace")
    page.wait_for_selector("#suggestions [role=option]")

    page.keyboard.press("Escape")
    kept, is_open = field.input_value(), field.get_attribute("aria-expanded")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{served}/sites/slac/")

    assert (typed, kept, is_open) == ("slac/", "slac", "false")


def test_the_search_works_without_scripts(browser, served, paths):
    page = open_page(browser, f"{served}/sites/", java_script_enabled=False)

    page.fill("#search input", "c")
    page.press("#search input", "Enter")
    page.click(".hits >> text=cern")

    assert page.url == f"{served}/sites/cern/"


@pytest.mark.parametrize("screen", SCREENS)
def test_the_open_menu_fits_and_is_accessible(browser, served, paths, screen):
    page = logged_in(browser, served, "/table/", screen)
    if screen == "phone":
        page.click("#menu summary")
    page.click("#more summary")
    shot(page, f"menu-{screen}")
    box = page.locator("#more ul").bounding_box()

    assert wrong_for_readers(page) == []
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= SCREENS[screen][0]
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{served}/settings/")
    shot(page, f"settings-{screen}")
    assert wrong_for_readers(page) == []
