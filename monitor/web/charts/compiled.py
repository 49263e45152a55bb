"""Charts compiled from Vega-Lite to Vega by the centre: in a browser that takes more than half of a second.

In: specs of `monitor.web.charts.layout.filled`. Out: `{"vega": …, "datasets": …, "params": …, "usermeta": …}`, the
compiled layout without rows, and beside it the rows and values, which static/web/charts.js puts in. A layout is
constant, so it is compiled once, in a separate process (like the bundle), and kept in the data folder under a hash of
the layout and the version of the compiler.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from django.conf import settings

from monitor.archive.queries.paths import Series
from monitor.web.charts.bundle import LONGEST_S, BundleError, bundle_version, write_whole
from monitor.web.charts.layout import UTC_LABEL
from monitor.web.charts.marks import Spec, TimeAxis
from monitor.web.charts.series import throughput_chart
from monitor.web.charts.smoke import smoke_chart

_COMPILE = (
    "import json, sys, vl_convert; "
    "sys.stdout.write(json.dumps(vl_convert.vegalite_to_vega(json.load(sys.stdin)), separators=(',', ':')))"
)
_VALUES = ("datasets", "params", "usermeta")
MARGINS_PX = {"left": 64, "top": 7, "right": 5, "bottom": 22}
"""Around the plot: those of the first drawing in style.css. With margins of its own Vega would draw all marks twice."""
_TRUNCATED_TIME = re.compile(r"utcyearmonthdatehoursminutesseconds_(\w+)")


def compiled(spec: Spec) -> Spec:
    """The spec with its layout compiled. Raises `BundleError`."""
    zone = spec.get("usermeta", {}).get("zone", UTC_LABEL)
    layout = {key: value for key, value in spec.items() if key not in _VALUES}
    layout["config"] = {**layout["config"], "aria": False}  # the page has the chart's sentence; the canvas is hidden
    layout["params"] = [{"name": param["name"], "value": 0} for param in spec["params"]]
    text = json.dumps(layout, separators=(",", ":"), sort_keys=True)
    vega = _vega_of(text.replace(f"({zone})", f"({UTC_LABEL})")).replace(f"({UTC_LABEL})", f"({zone})")
    return {"vega": json.loads(vega), **{key: spec[key] for key in _VALUES if key in spec}}


def compile_layouts() -> None:
    """Compile the layouts of the path page. Raises `BundleError`."""
    window = TimeAxis(datetime.fromtimestamp(0, tz=UTC), datetime.fromtimestamp(3600, tz=UTC))
    none = Series(path_id=0, packet_bytes=0, step_s=60, points=())
    for spec in (smoke_chart(none, (), window), throughput_chart(none, (), window)):
        compiled(spec)


@lru_cache(maxsize=32)
def _vega_of(layout: str) -> str:
    """The compiled layout as JSON."""
    digest = sha256(f"{_COMPILE} {MARGINS_PX} {layout}".encode()).hexdigest()[:16]
    path = settings.DATA_DIR / "web" / f"chart-{bundle_version()}-{digest}.json"
    if not path.exists():
        write_whole(path, json.dumps(_lightened(_compile(layout)), separators=(",", ":")).encode())
    return path.read_text()


def _compile(layout: str) -> str:
    argv = [sys.executable, "-c", _COMPILE]
    done = subprocess.run(argv, input=layout, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode != 0 or not done.stdout:
        raise BundleError(f"vl_convert could not compile a chart: {done.stderr.strip()[-500:] or 'no output'}")
    return done.stdout


def _lightened(text: str) -> dict[str, Any]:
    """With fixed margins, and without the rounding of each row's time to a second: it is for tooltips, whose format
    does it."""
    around_px = MARGINS_PX["left"] + MARGINS_PX["right"]
    width = "? containerSize()[0]"
    vega: dict[str, Any] = json.loads(_TRUNCATED_TIME.sub(r"\1", text).replace(width, f"{width} - {around_px}"))
    vega |= {"autosize": "none", "padding": MARGINS_PX}
    for data in vega["data"]:
        data["transform"] = [step for step in data.get("transform", []) if step["type"] != "timeunit"]
    return vega
