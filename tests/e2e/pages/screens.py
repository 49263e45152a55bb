"""Pages in Chromium on the database of a test, which plants rows and needs no stack: screens, logins, refreshes."""

from __future__ import annotations

import os
from pathlib import Path

from django.test import Client

from tests.db.incident_rows import person

SCREENS = {"desktop": (1280, 900, "light"), "phone": (390, 844, "light"), "dark": (1280, 900, "dark")}
SHOTS = os.environ.get("SOUNDINGS_TEST_SHOTS")
"""Folder for screenshots, for visual checks."""
PATIENCE_MS = 60_000


def open_page(browser, address, screen="desktop", **options):
    """A page that fails the test for any message on its console."""
    width, height, scheme = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="Europe/Zurich", **options
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.goto(address)
    return page


def logged_in(browser, served, address, screen="desktop", **options):
    client = Client()
    client.force_login(person(f"les-{screen}", "operator"))
    page = open_page(browser, served + "/login/", screen, **options)
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": served}])
    page.goto(served + address)
    return page


def refreshed(page):
    """Let the page fetch itself now, as it does every few seconds."""
    page.evaluate(
        "() => new Promise((done) => { document.addEventListener('soundings:refreshed', done, { once: true });"
        " document.dispatchEvent(new Event('visibilitychange')); })"
    )


def shot(page, name):
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)
