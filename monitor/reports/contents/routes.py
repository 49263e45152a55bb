"""Route changes of a report: those with an effect in words, the others only counted."""

from __future__ import annotations

from monitor.analysis.routes import wording
from monitor.analysis.routes.wording import AsLabels
from monitor.archive.queries.routes.effects import MeasuredChange
from monitor.reports.contents.collect import Material
from monitor.reports.contents.report import RouteChangeReport, RoutesReport


def routes_report(material: Material) -> RoutesReport | None:
    """The routes of the traced paths; None where no path was traced."""
    if material.routes is None:
        return None
    labels = _labels(material)
    return RoutesReport(
        traced_paths=len(material.traced),
        changes=len(material.routes.changes),
        with_effect=tuple(_change(measured, material, labels) for measured in material.routes.with_effect),
        steps=material.routes.steps,
        explained=material.routes.explained,
        as_table=None if material.as_table is None else str(material.as_table),
    )


def _labels(material: Material) -> AsLabels:
    names = {name.asn: name.as_name for name in material.hop_names.values() if name.asn is not None}
    return AsLabels(as_of=lambda address: material.hop_names[address].asn, name_of=names.get)


def _change(measured: MeasuredChange, material: Material, labels: AsLabels) -> RouteChangeReport:
    change = measured.change
    return RouteChangeReport(
        path=material.traced[measured.path_id],
        at=change.at,
        effects=tuple(wording.effects(measured.effect)),
        replacement=wording.replacement(change.before, change.after, labels),
    )
