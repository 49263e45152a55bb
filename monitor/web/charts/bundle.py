"""Vega, its interpreter and tooltips, from the vl-convert wheel.

A separate process writes them to the data folder: the wheel holds a JavaScript engine, too large for a web server's
memory.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.conf import settings

# The wheel looks its modules up by this origin; nothing is fetched from there.
_MODULES = "https://cdn.jsdelivr.net/npm"
_SNIPPET = f"""
import {{ View, parse }} from "{_MODULES}/vega@VEGA/+esm";
import {{ expressionInterpreter }} from "{_MODULES}/vega-interpreter@2.0.0/+esm";
import {{ Handler }} from "{_MODULES}/vega-tooltip@1.0.0/+esm";
window.vega = {{ View, parse, expressionInterpreter, TooltipHandler: Handler }};
"""
_PRINT_BUNDLE = (
    "import sys, vl_convert; snippet = sys.stdin.read().replace('VEGA', vl_convert.get_vega_version()); "
    "sys.stdout.write(vl_convert.javascript_bundle(snippet))"
)
LONGEST_S = 120


class BundleError(Exception):
    """The bundle or a layout cannot be made; the message says why."""


def wheel_version() -> str:
    return version("vl-convert-python")


@cache
def bundle_version() -> str:
    """Wheel version, and a hash of the bundled parts."""
    return f"{wheel_version()}-{sha256(f'{_PRINT_BUNDLE} {_SNIPPET}'.encode()).hexdigest()[:8]}"


def bundle_gzip() -> bytes:
    """Return the bundle, made at first use. Raises `BundleError`."""
    path = settings.DATA_DIR / "web" / f"vega-{bundle_version()}.js.gz"
    if not path.exists():
        write_whole(path, gzip.compress(_make().encode(), compresslevel=9, mtime=0))
    return path.read_bytes()


def _make() -> str:
    argv = [sys.executable, "-c", _PRINT_BUNDLE]
    done = subprocess.run(argv, input=_SNIPPET, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode != 0 or not done.stdout:
        raise BundleError(f"vl_convert could not make the chart bundle: {done.stderr.strip()[-500:] or 'no output'}")
    return done.stdout


def write_whole(path: Path, content: bytes) -> None:
    """Write atomically: no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    Path(part.name).replace(path)
