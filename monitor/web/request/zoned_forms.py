"""Form fields for times in the form's zone, by default UTC, which a hidden field names: browser inputs send none."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone

from monitor.accounts.preferences import UTC_NAME, is_zone
from monitor.overview.moments import in_bounds

MINUTE_FORMAT = "%Y-%m-%dT%H:%M"


class ZonedMinute(forms.DateTimeField):
    """Time to the minute, in the form's zone.

    Where clocks go back, the first pass counts for a start and the second for an end (`is_end`), unless the form showed
    another; missing hours are an error.
    """

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=MINUTE_FORMAT)
    input_formats = [MINUTE_FORMAT, f"{MINUTE_FORMAT}:%S"]

    def __init__(self, *, is_end: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.is_end = is_end
        self.zone: tzinfo = UTC
        self.shown: datetime | None = None

    def prepare_value(self, value: Any) -> Any:
        return value.astimezone(self.zone).replace(tzinfo=None) if isinstance(value, datetime) else value

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        # Not that of DateTimeField, which would put it into the current zone.
        wall: datetime | None = super(forms.DateTimeField, self).to_python(value)
        assert wall is not None
        if self.shown is not None and self.prepare_value(self.shown).replace(second=0, microsecond=0) == wall:
            return self.shown
        at = wall.replace(tzinfo=self.zone, fold=int(self.is_end))
        try:
            at_utc = in_bounds(at)
        except (ValueError, OverflowError) as error:
            raise forms.ValidationError(f"{error}.") from error
        if at_utc.astimezone(self.zone).replace(tzinfo=None) != wall:
            raise forms.ValidationError(
                f"{wall:%Y-%m-%d %H:%M} does not exist in {self.zone}: clocks go forward then. Choose another time."
            )
        return at_utc


class ZonedForm(forms.Form):
    """Labels name the form's zone."""

    zone = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shown = timezone.get_current_timezone_name()
        name = (self.data.get("zone") or UTC_NAME) if self.is_bound else shown
        zone = ZoneInfo(name if is_zone(name) else UTC_NAME)
        self.initial.setdefault("zone", shown)
        for key, field in self.fields.items():
            if isinstance(field, ZonedMinute):
                field.zone, field.shown = zone, self.initial.get(key)
                field.label = f"{field.label} ({zone})"

    def clean_zone(self) -> str:
        name: str = self.cleaned_data["zone"] or UTC_NAME
        if not is_zone(name):
            raise forms.ValidationError(f'"{name}" is not a time zone.')
        return name
