"""The pictures of the README and the docs: `make screenshots`, a quarter of an hour on an otherwise idle machine.

Starts a lab of five sites as `make run` does, in a folder of its own, plants a loss and a new test, waits until every
page has data, takes the pictures of `SHOTS` into docs/images, and ends everything. With `--every DIR` each page is
taken on every screen, for visual checks.
"""

from __future__ import annotations

import argparse
import io
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser

from probes.lab.scenario import DEFAULT_SCENARIO
from tests.e2e.stack import RunningStack, running_stack, wait_for
from tests.e2e.visits import DRAWN, browsing

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
MOST_BYTES = 150_000
COLOURS = 256
"""Colours of the palette: enough for text on few backgrounds; half of the bytes."""
PATIENCE_S = 1500
PATIENCE_MS = 60_000
QUIET_PACKETS = 200
"""Packets sent on every path before anything is planted: the baseline of the alerts."""
TESTED_PATHS = 12
"""Number of the lab's twenty paths that need a throughput test before pictures are taken."""

LOSSY = ("cern", "ornl")
LOSS_RATIO = "0.06"
WITH_CAPACITY = """
[[test]]
name = "narrowest"
kind = "capacity"
every_s = 600
"""


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
    """A picture: the page by its name in `addresses`, the screen, and the height shown."""

    page: str
    screen: str
    height: int

    @property
    def name(self) -> str:
        return self.page if self.screen == "light" else f"{self.page}-{self.screen}"


SHOTS = (
    Shot("grid", "light", 900),
    Shot("grid", "phone", 780),
    Shot("path", "light", 1180),
    Shot("incident", "light", 1180),
    Shot("incident", "phone", 780),
    Shot("site", "dark", 860),
    Shot("throughput", "light", 800),
    Shot("map", "dark", 860),
    Shot("report", "light", 1000),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--every", type=Path, metavar="DIR", help="each page on every screen, whole, into this folder")
    arguments = parser.parse_args()
    with running_stack("--lab", DEFAULT_SCENARIO) as stack:
        prepare(stack)
        addresses = addresses_of(stack)
        with browsing() as browser:
            if arguments.every is not None:
                arguments.every.mkdir(parents=True, exist_ok=True)
                for name, address in addresses.items():
                    for screen in SCREENS:
                        shot = Shot(name, screen, 0)
                        write(arguments.every / f"{shot.name}.png", take(browser, stack, address, shot))
                return
            for shot in SHOTS:
                picture = take(browser, stack, addresses[shot.page], shot)
                write(IMAGES / f"{shot.name}.png", picture)


def prepare(stack: RunningStack) -> None:
    """Create data for every page."""
    wait_for(lambda: all_sent(stack, 1), PATIENCE_S, "every path is measured")
    say("every path is measured; a new test is planned")
    mesh = stack.data / "lab" / "mesh.toml"
    text = mesh.read_text()
    tests = 'tests = ["ping", "tcp"]'
    assert tests in text, "the lab's mesh.toml has a group with two tests"
    mesh.write_text(text.replace(tests, 'tests = ["ping", "tcp", "narrowest"]') + WITH_CAPACITY)
    stack.manage("mesh", "apply", str(mesh))
    wait_for(lambda: all_sent(stack, QUIET_PACKETS), PATIENCE_S, f"{QUIET_PACKETS} packets on every path")
    say("the baseline is complete; a loss is planted")
    stack.lab("set", "-".join(LOSSY), "--loss", LOSS_RATIO)
    wait_for(lambda: stack.get("incidents?state=open"), PATIENCE_S, "the loss is an incident")
    say("the loss is an incident")
    wait_for(lambda: tested(stack) >= TESTED_PATHS, PATIENCE_S, f"{TESTED_PATHS} paths with a throughput test")
    wait_for(lambda: stack.get(f"paths/{path_id(stack)}/capacity"), PATIENCE_S, "the lossy path's narrowest link")
    today = datetime.now(UTC).date()
    stack.manage("report", "weekly", "--week", f"{today:%G-W%V}")


def addresses_of(stack: RunningStack) -> dict[str, str]:
    """Each page's address on the stack, with the time since the lab began where a page takes a period."""
    lossy_id = path_id(stack)
    points = stack.get(f"paths/{lossy_id}/series")["points"]
    since = datetime.fromisoformat(points[0]["at"])
    lasts = urlencode({"since": f"{since:%Y-%m-%dT%H:%M}", "until": f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"})
    [incident, *_] = stack.get("incidents?state=open")
    return {
        "grid": "/",
        "path": f"/paths/{lossy_id}/?{lasts}",
        "incident": f"/incidents/{incident['id']}/",
        "site": f"/sites/{LOSSY[1]}/?period=hour",
        "throughput": "/throughput/?period=hour",
        "map": "/map/",
        "report": f"/reports/{datetime.now(UTC):%G-W%V}",
    }


def all_sent(stack: RunningStack, packets: int) -> bool:
    """Whether every path has sent this many packets."""
    cells = stack.get("grid?metric=loss_ratio&period=hour")["cells"]
    return bool(cells) and all((cell["sent"] or 0) >= packets for cell in cells)


def tested(stack: RunningStack) -> int:
    """Number of paths with a measured throughput test."""
    cells = stack.get("grid?metric=throughput_median_bps&period=hour")["cells"]
    return sum(cell["value"] is not None for cell in cells)


def path_id(stack: RunningStack) -> int:
    """The path with the planted loss."""
    ends = {(path["source"]["site"], path["destination"]["site"]): path["id"] for path in stack.get("paths")}
    return ends[LOSSY]


def take(browser: Browser, stack: RunningStack, address: str, shot: Shot) -> Image.Image:
    """The page after its charts are drawn; the whole page where the shot's height is 0."""
    screen = SCREENS[shot.screen]
    context = browser.new_context(
        viewport={"width": screen.width, "height": shot.height or screen.height},
        color_scheme=screen.scheme,
        device_scale_factor=screen.scale,
        is_mobile=shot.screen == "phone",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    answer = page.goto(f"http://127.0.0.1:{stack.port}{address}")
    assert answer is not None, address
    assert answer.ok, f"{address}: {answer.status}"
    page.wait_for_function(DRAWN)
    png = page.screenshot(full_page=shot.height == 0)
    context.close()
    return Image.open(io.BytesIO(png))


def write(path: Path, picture: Image.Image) -> None:
    """Write a PNG with a palette. Raises `ValueError` where it is too large for a page of documentation."""
    out = io.BytesIO()
    in_few = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    in_few.save(out, "PNG", optimize=True)
    if path.parent == IMAGES and len(out.getvalue()) > MOST_BYTES:
        raise ValueError(f"{path.name} has {len(out.getvalue()):,} bytes, {MOST_BYTES:,} are the most; show less of it")
    path.write_bytes(out.getvalue())
    say(f"{os.path.relpath(path)}: {len(out.getvalue()) / 1000:.0f} kB")


def say(message: str) -> None:
    print(message, flush=True)


if __name__ == "__main__":
    main()
