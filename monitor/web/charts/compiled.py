"""Charts compiled from Vega-Lite to Vega by the centre: in a browser that takes more than half of a second.

In: specs of `monitor.web.charts.layout.filled`. Out: `{"vega": …, "datasets": …, "params": …, "usermeta": …}`, the
compiled layout without rows, and beside it the rows and values, which static/web/charts.js puts in. A layout is
constant, so it is compiled once, in a separate process (like the bundle), and kept in the data folder under a hash of
the layout and the version of the compiler. A layout with `padding` has these margins and no others: with margins of its
own Vega would draw all marks twice.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from monitor.web.charts.bundle import LONGEST_S, BundleError, wheel_version, write_whole
from monitor.web.charts.layout import UTC_LABEL
from monitor.web.charts.marks import Spec

_COMPILE = (
    "import json, sys, vl_convert; "
    "sys.stdout.write(json.dumps([vl_convert.vegalite_to_vega(layout) for layout in json.load(sys.stdin)]))"
)
_REWRITTEN = 2
"""To be raised when `_lightened` changes, so that stored layouts are compiled again."""
_VALUES = ("datasets", "params", "usermeta")
_TRUNCATED_TIME = re.compile(r"utcyearmonthdatehoursminutesseconds_(\w+)")


def compiled(spec: Spec) -> Spec:
    """The spec with its layout compiled. Raises `BundleError`."""
    zone = spec.get("usermeta", {}).get("zone", UTC_LABEL)
    vega = _vega_of(_layout_of(spec, zone)).replace(f"({UTC_LABEL})", f"({zone})")
    return {"vega": json.loads(vega), **{key: spec[key] for key in _VALUES if key in spec}}


def compile_layouts(specs: Iterable[Spec]) -> None:
    """Compile the layouts that are not in the data folder, in a single process. Raises `BundleError`."""
    missing = [layout for layout in map(_layout_of, specs) if not _file_of(layout).exists()]
    if missing:
        _store(missing)


def _layout_of(spec: Spec, zone: str = UTC_LABEL) -> str:
    """The layout as JSON, the same for all rows, values and time zones."""
    layout = {key: value for key, value in spec.items() if key not in _VALUES}
    layout["config"] = {**layout["config"], "aria": False}  # the page has the chart's sentence; the canvas is hidden
    layout["params"] = [{"name": param["name"], "value": 0} for param in spec["params"]]
    text = json.dumps(layout, separators=(",", ":"), sort_keys=True)
    return text.replace(f"({zone})", f"({UTC_LABEL})")


@lru_cache(maxsize=64)
def _vega_of(layout: str) -> str:
    """The compiled layout as JSON."""
    path = _file_of(layout)
    if not path.exists():
        _store([layout])
    return path.read_text()


def _file_of(layout: str) -> Path:
    digest = sha256(f"{_COMPILE} {_REWRITTEN} {layout}".encode()).hexdigest()[:16]
    path: Path = settings.DATA_DIR / "web" / f"chart-{wheel_version()}-{digest}.json"
    return path


def _store(layouts: Sequence[str]) -> None:
    for layout, vega in zip(layouts, _compile(layouts), strict=True):
        lightened = _lightened(vega, json.loads(layout).get("padding"))
        write_whole(_file_of(layout), json.dumps(lightened, separators=(",", ":")).encode())


def _compile(layouts: Sequence[str]) -> list[Spec]:
    argv, given = [sys.executable, "-c", _COMPILE], f"[{','.join(layouts)}]"
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode != 0 or not done.stdout:
        raise BundleError(f"vl_convert could not compile a chart: {done.stderr.strip()[-500:] or 'no output'}")
    vega: list[Spec] = json.loads(done.stdout)
    return vega


def _lightened(vega: Spec, margins_px: dict[str, int] | None) -> dict[str, Any]:
    """With fixed margins, and without the rounding of each row's time to a second: it is for tooltips, whose format
    does it."""
    text = _TRUNCATED_TIME.sub(r"\1", json.dumps(vega))
    if margins_px is not None:
        width = "? containerSize()[0]"
        text = text.replace(width, f"{width} - {margins_px['left'] + margins_px['right']}")
    light: dict[str, Any] = json.loads(text)
    if margins_px is not None:
        light |= {"autosize": "none", "padding": margins_px}
    for data in light["data"]:
        data["transform"] = [step for step in data.get("transform", []) if step["type"] != "timeunit"]
    return light
