"""The JavaScript that draws charts: Vega, Vega-Lite and vega-embed as one file, out of the vl-convert wheel.

It is written to the data folder at the first request, by a separate process (the wheel holds a whole
JavaScript engine, which a web server need not keep in memory), and kept under the wheel's version.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.conf import settings

_PRINT_BUNDLE = "import sys, vl_convert; sys.stdout.write(vl_convert.javascript_bundle())"
LONGEST_S = 120


class BundleError(Exception):
    """The bundle could not be made; the message is the reason."""


def bundle_version() -> str:
    """Version of the wheel that contains the bundle."""
    return version("vl-convert-python")


def bundle_gzip() -> bytes:
    """The bundle, gzip-compressed. Raises `BundleError`."""
    path = settings.DATA_DIR / "web" / f"vega-{bundle_version()}.js.gz"
    if not path.exists():
        write_whole(path, gzip.compress(_make().encode(), compresslevel=9, mtime=0))
    return path.read_bytes()


def _make() -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_BUNDLE], capture_output=True, text=True, check=False, timeout=LONGEST_S
    )
    if done.returncode != 0 or not done.stdout:
        raise BundleError(f"vl_convert could not make the chart bundle: {done.stderr.strip()[-500:] or 'no output'}")
    return done.stdout


def write_whole(path: Path, content: bytes) -> None:
    """Write atomically, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    Path(part.name).replace(path)
