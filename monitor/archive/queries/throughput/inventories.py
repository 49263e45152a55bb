"""Inventories of the hosts of throughput tests: their settings as pairs, and the settings that changed on a path.

In: inventories, a path and a period. Out: `InventoryChange`, newest first.
"""

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
    """A setting of a host that was another at the test before `at`. `role` is sender or receiver; None is not known."""

    at: datetime
    role: str
    setting: str
    before: str | None
    after: str | None


def inventory_changes(path_id: int, until: datetime, within: timedelta = CHANGES_WITHIN) -> list[InventoryChange]:
    """Changed settings of both hosts of a path, up to the test at `until`, newest first.

    A setting that only one of two inventories has is left out: an agent of another version reports other settings.
    """
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
    """An inventory as the table has it."""
    return msgspec.json.decode(stored, type=HostInventory)


def settings_of(inventory: HostInventory) -> dict[str, str]:
    """The settings of an inventory by name, sysctls by their own names; without those that are not known."""
    fields = msgspec.structs.asdict(inventory)
    offloads, sysctls = fields.pop("offloads"), fields.pop("sysctls")
    return {
        **{name: _text(value) for name, value in fields.items() if value is not None},
        **{name: "on" if value else "off" for name, value in sorted(offloads.items())},
        **sysctls,
    }


def _text(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)
