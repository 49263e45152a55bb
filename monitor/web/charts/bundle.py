"""The JavaScript that draws charts: Vega, its expression interpreter and its tooltips as a file, out of the vl-convert
wheel. Vega-Lite is not in it: the centre compiles all charts (`monitor.web.charts.compiled`).

It is written to the data folder at the first request, by a separate process (the wheel holds a whole
JavaScript engine, which a web server need not keep in memory), and kept under the wheel's version.
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

_MODULES = "https://cdn.jsdelivr.net/npm"
"""Where the wheel has its modules from, and looks them up by; nothing is fetched from there."""
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
    """The bundle could not be made; the message is the reason."""


def wheel_version() -> str:
    """Version of the wheel that contains Vega and the compiler of charts."""
    return version("vl-convert-python")


@cache
def bundle_version() -> str:
    """Version of the wheel, and a hash of the parts of it that are in the bundle."""
    return f"{wheel_version()}-{sha256(f'{_PRINT_BUNDLE} {_SNIPPET}'.encode()).hexdigest()[:8]}"


def bundle_gzip() -> bytes:
    """The bundle, gzip-compressed. Raises `BundleError`."""
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
    """Write atomically, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    Path(part.name).replace(path)
