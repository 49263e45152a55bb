"""Inventories of throughput tests' hosts: settings as pairs, and changed settings of a path."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from monitor.archive.statements import check_period, run_statement
from probes.transfers.hosts.spec import HostInventory

CHANGES_WITHIN = timedelta(days=90)
MOST_TURNS = 20


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """Host setting that differs from the test before `at`. `role` is sender or receiver; None is unknown."""

    at: datetime
    role: str
    setting: str
    before: str | None
    after: str | None


def inventory_changes(path_id: int, until: datetime, within: timedelta = CHANGES_WITHIN) -> list[InventoryChange]:
    """Changed settings of both hosts, newest first, without settings missing in an inventory (other agent versions)."""
    check_period(until - within, until)
    parameters = {"path_id": path_id, "since": until - within, "until": until, "most": MOST_TURNS}
    _, rows = run_statement("inventory_turns", **parameters)
    return [
        InventoryChange(at=at, role=role, setting=setting, before=old[setting], after=new[setting])
        for at, role, before, after in rows
        for old, new in [(settings_of(decoded_inventory(before)), settings_of(decoded_inventory(after)))]
        for setting in new
        if setting in old and old[setting] != new[setting]
    ]


def decoded_inventory(stored: str) -> HostInventory:
    return msgspec.json.decode(stored, type=HostInventory)


def settings_of(inventory: HostInventory) -> dict[str, str]:
    """Known settings by name."""
    fields = msgspec.structs.asdict(inventory)
    offloads, sysctls = fields.pop("offloads"), fields.pop("sysctls")
    return {
        **{name: _text(value) for name, value in fields.items() if value is not None},
        **{name: "on" if value else "off" for name, value in sorted(offloads.items())},
        **sysctls,
    }


def _text(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)
