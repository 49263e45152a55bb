"""Write dashboards and alert rules as JSON; find stale files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

JSON_DIR = Path(__file__).parent / "json"
ALERTING_DIR = Path(__file__).parent / "provisioning" / "alerting"

Builders = Mapping[str, Callable[[], object]]


def text(built: object) -> str:
    """Encode as JSON for Grafana."""
    content = json.loads(JSONEncoder().encode(built))
    _drop_defaults(content)
    # Sorted keys keep diffs small.
    return json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def _drop_defaults(content: dict[str, Any]) -> None:
    """Drop SDK defaults that Grafana misreads, in place."""
    # Grafana 11 tells variables apart by `id`, which the SDK sets alike.
    for variable in content.get("templating", {}).get("list", []):
        del variable["id"]
    panels = [inner for panel in content.get("panels", ()) for inner in (panel, *panel.get("panels", ()))]
    for panel in panels:
        # Without `repeat` it makes a panel as wide as the dashboard.
        if "repeat" not in panel:
            panel.pop("repeatDirection", None)


def write(builders: Builders, folder: Path = JSON_DIR) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, build in builders.items():
        (folder / name).write_text(text(build()), encoding="utf-8")
    return [folder / name for name in builders]


def stale(builders: Builders, folder: Path = JSON_DIR) -> list[str]:
    """Files that are missing, outdated, or without a builder."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    built = {name: text(build()) for name, build in builders.items()}
    return sorted(name for name in committed.keys() | built.keys() if committed.get(name) != built.get(name))
