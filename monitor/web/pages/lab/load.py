"""The data of the lab's page: the paths of the running lab, those that are broken, and the incident of each.

In: the run folder of the lab, whose control socket only its user may use. Out: a `LabView`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django import forms

from monitor.alerts.incidents.queries import PathIncident, incident_between_sites
from probes.lab import breaks, control
from probes.quantities import duration_text

MOST_DELAY_MS = 5_000
MOST_RATE_MBPS = 100_000


@dataclass(frozen=True, slots=True)
class BrokenPath:
    """A path with changed settings; `incident` opened after the change, or `earlier` was open then."""

    source: str
    destination: str
    text: str
    changed_at: datetime
    waited: str
    incident: PathIncident | None
    earlier: PathIncident | None

    @property
    def value(self) -> str:
        return f"{self.source}:{self.destination}"

    @property
    def took(self) -> str | None:
        """Time from the change until the incident."""
        if self.incident is None:
            return None
        return duration_text((self.incident.at - self.changed_at).total_seconds())


@dataclass(frozen=True, slots=True)
class LabView:
    """The lab by its title, its directed paths and those that are broken, the latest first."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    broken: tuple[BrokenPath, ...]


class BreakForm(forms.Form):
    """A path and the settings to change."""

    path = forms.ChoiceField(label="path")
    loss_percent = forms.FloatField(label="loss (%)", min_value=0, max_value=100, required=False)
    delay_ms = forms.FloatField(label="one-way delay (ms)", min_value=0, max_value=MOST_DELAY_MS, required=False)
    rate_mbps = forms.FloatField(label="rate (Mbit/s)", min_value=0.001, max_value=MOST_RATE_MBPS, required=False)

    def __init__(self, pairs: tuple[tuple[str, str], ...], *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        field = self.fields["path"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(":".join(pair), " → ".join(pair)) for pair in pairs]

    def clean(self) -> None:
        if not self.errors and not self.changes:
            raise forms.ValidationError("Give a loss, a delay or a rate.")

    @property
    def changes(self) -> dict[str, float | int | None]:
        """The settings by the names of `probes.lab.scenario.PathSettings`."""
        data = self.cleaned_data
        loss_percent = data.get("loss_percent")
        given = {
            "loss_ratio": None if loss_percent is None else loss_percent / 100,
            "delay_ms": data.get("delay_ms"),
            "rate_mbps": data.get("rate_mbps"),
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def request(self) -> control.SetRequest:
        source, destination = self.cleaned_data["path"].split(":")
        return control.SetRequest(source=source, destination=destination, changes=self.changes)


def load_lab(run_dir: Path, now: datetime) -> LabView:
    """Load the page. Raises `probes.lab.scenario.LabError` where the lab does not answer."""
    status = control.ask_status(run_dir)
    return LabView(
        title=status.lab.title,
        pairs=tuple(sorted((path.source, path.destination) for path in status.paths)),
        broken=tuple(_broken(path, now) for path in breaks.broken_paths(status)),
    )


def undo(run_dir: Path, value: str) -> None:
    """Restore the settings of a broken path; nothing where it is not broken. Raises `LabError`."""
    for path in breaks.broken_paths(control.ask_status(run_dir)):
        if f"{path.source}:{path.destination}" == value:
            control.ask(run_dir, breaks.undo_request(path))


def _broken(path: control.PathStatus, now: datetime) -> BrokenPath:
    changed_at = path.changed_at or now
    incident = incident_between_sites(path.source, path.destination, since=changed_at)
    return BrokenPath(
        source=path.source,
        destination=path.destination,
        text=breaks.difference_text(path),
        changed_at=changed_at,
        waited=duration_text((now - changed_at).total_seconds()),
        incident=incident,
        earlier=incident_between_sites(path.source, path.destination, since=None) if incident is None else None,
    )
