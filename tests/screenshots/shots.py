"""Pictures of pages: a page on a screen, taken in Chromium and written as a small PNG."""

from __future__ import annotations

import argparse
import io
import os
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from tests.e2e.visits import DRAWN

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
MOST_BYTES = 150_000
COLOURS = 256
"""Colours of the palette: enough for text on few backgrounds; half of the bytes."""
EXACT_COLOURS = 32
PATIENCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Screen:
    """A browser window of `width` by `height` CSS pixels, in light or dark."""

    width: int
    height: int
    scheme: str
    scale: float = 1.0


SCREENS = {
    "light": Screen(1200, 800, "light"),
    "dark": Screen(1200, 800, "dark"),
    "phone": Screen(390, 780, "light", 1.5),
}


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture: the page by its name in `addresses`, the screen, and the height shown; the width where it is not the
    screen's."""

    page: str
    screen: str
    height: int
    width: int | None = None

    @property
    def name(self) -> str:
        return self.page if self.screen == "light" else f"{self.page}-{self.screen}"


OTHER_FAULTS = ("delay", "throughput")
"""Faults beside the loss, which `grid`, `path` and `incident` show."""
ON_EVERY_SCREEN = ("light", "dark", "phone")
OF_LAB = (
    *(Shot("grid", screen, 900) for screen in ON_EVERY_SCREEN),
    *(Shot("path", screen, 900) for screen in ON_EVERY_SCREEN),
    *(Shot("path-at-rest", screen, 900) for screen in ("light", "dark")),
    *(Shot("incident", screen, 1180) for screen in ON_EVERY_SCREEN),
    *(Shot(f"{page}-{fault}", "light", 900) for fault in OTHER_FAULTS for page in ("grid", "path", "incident")),
    *(Shot("wall", screen, 800) for screen in ("light", "dark")),
    *(Shot("status", screen, 800) for screen in ON_EVERY_SCREEN),
    Shot("site", "dark", 860),
    Shot("throughput", "light", 800),
    Shot("map", "dark", 860),
    Shot("report", "light", 1000),
)
OF_LARGE_MESHES = {
    sites: tuple(
        Shot(f"{page}-{sites}", screen, height, 1920) for page, height in pages for screen in ("light", "dark")
    )
    for sites, pages in ((100, [("regions", 800), ("grid", 1080)]), (300, [("grid", 1080)]))
}
"""Pages of many sites, by the number of sites: the figures between their regions, and the grid of sites."""


def folder_of_every(description: str | None) -> Path | None:
    """The folder of `--every DIR`, created; None without the option."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--every", type=Path, metavar="DIR", help="each page on every screen, whole, into this folder")
    every: Path | None = parser.parse_args().every
    if every is not None:
        every.mkdir(parents=True, exist_ok=True)
    return every


def take(browser: Browser, address: str, shot: Shot) -> Image.Image:
    """The page after its charts are drawn; the whole page where the shot's height is 0."""
    screen = SCREENS[shot.screen]
    context = browser.new_context(
        viewport={"width": shot.width or screen.width, "height": shot.height or screen.height},
        color_scheme=screen.scheme,
        device_scale_factor=screen.scale,
        is_mobile=shot.screen == "phone",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    answer = page.goto(address)
    assert answer is not None, address
    assert answer.ok, f"{address}: {answer.status}"
    page.wait_for_function(DRAWN)
    png = page.screenshot(full_page=shot.height == 0)
    context.close()
    return Image.open(io.BytesIO(png))


def write(path: Path, picture: Image.Image) -> None:
    """Write a PNG with a palette. Raises `ValueError` where it is too large for a page of documentation."""
    out = io.BytesIO()
    _in_few_colours(picture.convert("RGB")).save(out, "PNG", optimize=True)
    if path.parent == IMAGES and len(out.getvalue()) > MOST_BYTES:
        raise ValueError(f"{path.name} has {len(out.getvalue()):,} bytes, {MOST_BYTES:,} are the most; show less of it")
    path.write_bytes(out.getvalue())
    say(f"{os.path.relpath(path)}: {len(out.getvalue()) / 1000:.0f} kB")


def _in_few_colours(picture: Image.Image) -> Image.Image:
    """The picture with a palette, in which its most frequent colours, the backgrounds, are exact."""
    counts = picture.getcolors(maxcolors=picture.width * picture.height) or []
    frequent = [colour for _, colour in sorted(counts, reverse=True)[:EXACT_COLOURS]]
    others = picture.quantize(COLOURS - EXACT_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in frequent for part in colour] + (others.getpalette() or []))
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def say(message: str) -> None:
    print(message, flush=True)
