"""Compile charts from Vega-Lite to Vega at the centre: a browser takes over half a second.

Returns `{"vega": …, "tooltips": …, "datasets": …, "params": …, "usermeta": …}` for static/web/charts.js. Layouts are
compiled once, in a separate process, and kept in the data folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from django.conf import settings

from monitor.web.charts.bundle import LONGEST_S, BundleError, wheel_version, write_whole
from monitor.web.charts.marks import Spec

_COMPILE = (
    "import json, sys, vl_convert; "
    "sys.stdout.write(json.dumps([vl_convert.vegalite_to_vega(layout) for layout in json.load(sys.stdin)]))"
)
# To be raised when `_with_margins` changes, so that stored layouts are compiled again.
_REWRITTEN = 3
_VALUES = ("datasets", "params", "usermeta")


def compiled(spec: Spec) -> Spec:
    """Raises `BundleError`."""
    values = {key: spec[key] for key in _VALUES if key in spec}
    return {"vega": json.loads(_vega_of(_layout_of(spec))), "tooltips": _tooltips(spec), **values}


def compile_layouts(specs: Iterable[Spec]) -> None:
    """Compile missing layouts in a single process. Raises `BundleError`."""
    missing = [layout for layout in map(_layout_of, specs) if not _file_of(layout).exists()]
    if missing:
        _store(missing)


def _tooltips(spec: Spec) -> dict[str, list[Spec]]:
    return {
        f"layer_{number}_marks": layer["encoding"]["tooltip"]
        for number, layer in enumerate(spec["layer"])
        if "tooltip" in layer.get("encoding", {})
    }


def _layout_of(spec: Spec) -> str:
    layout = {key: value for key, value in spec.items() if key not in _VALUES}
    layout["config"] = {**layout["config"], "aria": False}  # the page has the chart's sentence; the canvas is hidden
    layout["params"] = [{"name": param["name"], "value": 0} for param in spec["params"]]
    layout["layer"] = [_with_a_sign_for_its_tooltip(layer) for layer in spec["layer"]]
    return json.dumps(layout, separators=(",", ":"), sort_keys=True)


def _with_a_sign_for_its_tooltip(layer: Spec) -> Spec:
    if "tooltip" not in layer.get("encoding", {}):
        return layer
    # Vega calls for a tooltip only where a layer has one.
    return {**layer, "encoding": {**layer["encoding"], "tooltip": {"value": "…"}}}


@lru_cache(maxsize=64)
def _vega_of(layout: str) -> str:
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
        framed = _with_margins(vega, json.loads(layout).get("padding"))
        write_whole(_file_of(layout), json.dumps(framed, separators=(",", ":")).encode())


def _compile(layouts: Sequence[str]) -> list[Spec]:
    argv, given = [sys.executable, "-c", _COMPILE], f"[{','.join(layouts)}]"
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode != 0 or not done.stdout:
        raise BundleError(f"vl_convert could not compile a chart: {done.stderr.strip()[-500:] or 'no output'}")
    vega: list[Spec] = json.loads(done.stdout)
    return vega


def _with_margins(vega: Spec, margins_px: dict[str, int] | None) -> Spec:
    if margins_px is None:
        return vega
    # With margins of its own Vega would draw all marks twice.
    width = "? containerSize()[0]"
    around_px = margins_px["left"] + margins_px["right"]
    light: Spec = json.loads(json.dumps(vega).replace(width, f"{width} - {around_px}"))
    return {**light, "autosize": "none", "padding": margins_px}
