"""Pages in a real browser: errors on the console, bytes transferred, and accessibility.

In: an address and a screen. Out: a `Visit`. The expected contents of pages are not known here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, sync_playwright
from playwright.sync_api import TimeoutError as Late

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The shell without windows first: it takes less than half of the processor time."""
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE_MS = 60_000
A4_PX = 718
"""The width of A4 between margins of 10 mm, at 96 px an inch."""
FOR_THE_SCREEN = ":is(nav, button, [type=checkbox]):visible"
"""Elements that are useless on paper."""
DRAWN = """() => [...document.querySelectorAll('[data-chart]')].filter((chart) => chart.checkVisibility())
    .every((chart) => chart.classList.contains('ready'))"""
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => {
      for (let frame = element.parentElement; frame !== null; frame = frame.parentElement)
        if (getComputedStyle(frame).overflowX !== 'visible' && frame !== document.body) return false;
      return true;
    })
    .map((element) => element.outerHTML.slice(0, 120))"""


@contextmanager
def browsing() -> Iterator[Browser]:
    """Chromium, without a window."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), BROWSERS[0])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
        yield browser
        browser.close()


@dataclass(slots=True)
class Visit:
    """A first visit with an empty browser cache. Errors are collected as long as the page is open."""

    page: Page
    wrong: list[str] = field(default_factory=list)
    """The page's console messages, and failed requests."""
    requests: list[Request] = field(default_factory=list)

    def open(self, address: str) -> None:
        """Open the address and wait until all is loaded and every chart is drawn."""
        self.page.goto(address, wait_until="load")
        self.page.wait_for_function(DRAWN)

    def failed(self, request: Request) -> None:
        """A request of a page that was left before its answer arrived has not failed."""
        if request.failure != "net::ERR_ABORTED":
            self.wrong.append(f"{request.url}: {request.failure}")

    def transferred_bytes(self) -> int:
        """The bodies of all answers so far, as transferred."""
        return sum(request.sizes()["responseBodySize"] for request in list(self.requests))


@contextmanager
def visiting(browser: Browser, *, width: int = 1280, height: int = 900, **options: Any) -> Iterator[Visit]:
    """A separate browser window. `options` are those of Playwright's contexts."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    visit = Visit(page)
    page.on("console", lambda message: visit.wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    page.on("requestfailed", lambda request: visit.failed(request))
    page.on("requestfinished", lambda request: visit.requests.append(request))
    yield visit
    context.close()


def wrong_for_readers(page: Page, *rules: str) -> list[tuple[str, list[str]]]:
    """The violations found by axe-core, by all its rules or those given: each violated rule, with the elements."""
    chosen = {"runOnly": list(rules)} if rules else {}
    violations = Axe().run(page, options={"resultTypes": ["violations"], **chosen}).response["violations"]
    return [(violation["id"], [node["html"][:120] for node in violation["nodes"]]) for violation in violations]


def too_wide(page: Page) -> list[str]:
    """Elements that overflow the page on the right outside of scrolling frames, or the page's excess width, after the
    time that charts need to follow another width of the window."""
    with suppress(Late):
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth", timeout=5000)
    width, room = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    return [] if width <= room else [f"{width} px in {room} px", *page.evaluate(TOO_WIDE)]
