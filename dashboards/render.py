"""Write dashboards and alert rules as JSON files, and find stale files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

JSON_DIR = Path(__file__).parent / "json"
ALERTING_DIR = Path(__file__).parent / "provisioning" / "alerting"

Builders = Mapping[str, Callable[[], object]]


def text(built: object) -> str:
    """Encode as JSON for Grafana, with sorted keys so that diffs stay small."""
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(built) + "\n"


def write(builders: Builders, folder: Path = JSON_DIR) -> list[Path]:
    """Write each dashboard to its file in `folder`; returns the paths."""
    folder.mkdir(exist_ok=True)
    for name, build in builders.items():
        (folder / name).write_text(text(build()), encoding="utf-8")
    return [folder / name for name in builders]


def stale(builders: Builders, folder: Path = JSON_DIR) -> list[str]:
    """Names of files in `folder` that are missing, outdated, or without a builder."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    built = {name: text(build()) for name, build in builders.items()}
    return sorted(name for name in committed.keys() | built.keys() if committed.get(name) != built.get(name))
