"""Dashboards and alert rules to JSON text and files. What is in them is not decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

JSON_DIR = Path(__file__).parent / "json"
ALERTING_DIR = Path(__file__).parent / "provisioning" / "alerting"

Builders = Mapping[str, Callable[[], object]]


def text(built: object) -> str:
    """What was built as Grafana reads it: sorted keys, so that a change shows as what it is."""
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(built) + "\n"


def write(builders: Builders, folder: Path = JSON_DIR) -> list[Path]:
    """Write each to its file in `folder`; the files written."""
    folder.mkdir(exist_ok=True)
    for name, build in builders.items():
        (folder / name).write_text(text(build()), encoding="utf-8")
    return [folder / name for name in builders]


def stale(builders: Builders, folder: Path = JSON_DIR) -> list[str]:
    """Names of files in `folder` that are missing, differ from what is built now, or are built by nothing."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    built = {name: text(build()) for name, build in builders.items()}
    return sorted(name for name in there.keys() | built.keys() if there.get(name) != built.get(name))
