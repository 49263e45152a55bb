"""Wheels under another version than that of the tree, so that they can be upgraded to and from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import probes


def with_version(wheel: Path, version: str, folder: Path) -> Path:
    """The same wheel with another version, in an empty folder."""
    unpacked = folder / "unpacked"
    subprocess.run(["unzip", "-q", str(wheel), "-d", str(unpacked)], check=True)
    (information,) = unpacked.glob("*.dist-info")
    for file in (information / "METADATA", unpacked / "probes" / "__init__.py"):
        file.write_text(file.read_text().replace(probes.__version__, version))
    renamed = information.name.replace(probes.__version__, version)
    record = information / "RECORD"
    record.write_text(record.read_text().replace(information.name, renamed))
    for part in unpacked.glob(f"*-{probes.__version__}.*"):
        part.rename(part.with_name(part.name.replace(probes.__version__, version)))
    made = folder / wheel.name.replace(probes.__version__, version)
    subprocess.run(["zip", "-q", "-r", str(made), "."], cwd=unpacked, check=True)
    return made
