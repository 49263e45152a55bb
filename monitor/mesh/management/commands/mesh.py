"""`manage.py mesh check FILE` checks a mesh.toml; `mesh apply FILE` applies it to the database."""

from __future__ import annotations

import dataclasses
import gc
import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand
from django.utils import timezone

from monitor.database_errors import reported_to_user
from monitor.mesh.apply import apply
from monitor.mesh.changes import ACTIONS, MeshChanges
from monitor.mesh.document import expansion
from monitor.mesh.document.notify_routes import channels, unknown_channels
from monitor.mesh.document.reader import MeshDocument, MeshError, read
from monitor.mesh.document.rule_schedules import rules_without_effect
from monitor.mesh.document.rules import private_address_warnings, refused_address_warnings
from monitor.mesh.document.stamp_rules import stamp_warnings
from monitor.mesh.kinds.costs import FillingCosts, cost_warnings, costs_of
from monitor.mesh.schedule.slots import plan_slots
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted
from probes.toml.lines import suggestion


class Command(BaseCommand):
    help = "Check or apply mesh.toml, the definition of the measurements. See docs/mesh.md."
    # Checking a file needs neither a database nor the rest of the project.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="check|apply")
        for name, text in (
            ("check", "check a mesh.toml; needs no database"),
            ("apply", "apply a mesh.toml to the database and print the changes"),
        ):
            command = add_subcommand(commands, name, text, exit_status="0 the file is valid, 1 it is not, 2 usage")
            command.add_argument("file", type=Path, metavar="FILE", help="path of the mesh.toml")
            command.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        # Searches for garbage among the objects of a large mesh, which last to the end, take a fifth of the time.
        gc.disable()
        try:
            self._handle(**options)
        finally:
            gc.enable()

    def _handle(self, action: str, file: Path, as_json: bool, **_: Any) -> None:
        try:
            document = read(file)
        except MeshError as error:
            self._refuse(error, as_json=as_json)
        costs = costs_of(document)
        warnings = [*_warnings(document), *cost_warnings(costs)]
        if action == "check":
            self._check(document, file, costs, warnings, as_json=as_json)
        else:
            self._apply(document, warnings, as_json=as_json)
        if not as_json:
            for warning in warnings:
                self.stderr.write(f"{file}: warning: {warning}")

    def _refuse(self, error: MeshError, *, as_json: bool) -> NoReturn:
        if as_json:
            self.stdout.write(json.dumps(_problems(error)))
        else:
            self.stderr.write(str(error))
        raise SystemExit(1) from error

    def _check(
        self, document: MeshDocument, file: Path, costs: FillingCosts | None, warnings: Sequence[str], *, as_json: bool
    ) -> None:
        counts = _contents(document)
        if as_json:
            cost = None if costs is None else dataclasses.asdict(costs)
            self.stdout.write(json.dumps({"problems": [], "warnings": warnings, "contents": counts, "costs": cost}))
            return
        text = ", ".join(counted(count, kind) for kind, count in counts.items())
        self.stdout.write(f"{file}: OK: {text}")
        if costs is not None:
            self.stdout.write(f"{file}: {costs.text}")

    def _apply(self, document: MeshDocument, warnings: Sequence[str], *, as_json: bool) -> None:
        now = timezone.now()
        with reported_to_user():
            changes = apply(document, now)
            plan_slots(now, waits_for_agents=True)
        if as_json:
            self.stdout.write(json.dumps({**_changes(changes), "warnings": warnings}))
            return
        for change in changes.items:
            self.stdout.write(str(change))
        self.stdout.write(_total(changes))


def _warnings(document: MeshDocument) -> list[str]:
    """Warnings on rules, STAMP tests, addresses and channels."""
    configured = channels()
    unknown = [
        f'[[alerts.notify]]: SOUNDINGS_NOTIFY_URLS has no channel "{name}" here{suggestion(name, configured)}; '
        "notifications to it become dead letters"
        for name in unknown_channels(document.alerts, configured)
    ]
    return [
        *rules_without_effect(document),
        *stamp_warnings(document),
        *private_address_warnings(document),
        *refused_address_warnings(document),
        *unknown,
    ]


def _contents(document: MeshDocument) -> dict[str, int]:
    wanted = expansion.measurements(document)
    return {
        "site": len(document.sites),
        "host": sum(len(site.hosts) for site in document.sites),
        "test": len(document.tests),
        "group": len(document.groups),
        "path": len({(measurement.source, measurement.destination) for measurement in wanted}),
        "measurement": len(wanted),
    }


def _problems(error: MeshError) -> dict[str, Any]:
    return {"problems": [{"file": error.file, **dataclasses.asdict(problem)} for problem in error.problems]}


def _changes(changes: MeshChanges) -> dict[str, Any]:
    actions: dict[str, Any] = {
        action: [
            {"kind": change.kind, "name": change.name, "detail": change.detail} for change in changes.select(action)
        ]
        for action in ACTIONS
    }
    return {**actions, "slots_deleted": changes.slots_deleted}


def _total(changes: MeshChanges) -> str:
    if changes.is_empty:
        return "no changes"
    return "; ".join(f"{action} {_counted(changes.counts(action))}" for action in ACTIONS)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(counted(count, kind) for kind, count in counts.items()) or "nothing"
