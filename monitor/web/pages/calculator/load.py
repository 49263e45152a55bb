"""The calculator: what `manage.py estimate` says, for figures typed into a page. Keeps nothing and needs no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms

from monitor.analysis.tcp import (
    MSS_BYTES,
    NAME_OF_FIGURE,
    CongestionControl,
    FigureError,
    estimate,
    from_typed,
    needs,
    wording,
)
from monitor.archive.queries.path_estimates import PathEstimate
from monitor.web.pages.path.transfer import EstimateView, estimate_view

NOTHING_LIMITS = (
    "No estimate: a loss of 0 does not limit, and nothing else is known. Give a window, a capacity, or how many "
    "packets the loss was counted on."
)


class Figures(forms.Form):
    """The figures of a path and of a transfer, named as the options of the command are."""

    rtt_ms = forms.FloatField(label="round trip", help_text="ms, median")
    rtt_p10_ms = forms.FloatField(label="its 10th percentile", help_text="ms, for the interval", required=False)
    rtt_p90_ms = forms.FloatField(label="its 90th percentile", help_text="ms, for the interval", required=False)
    loss_ratio = forms.FloatField(label="loss", help_text="lost/sent, 0 to 1; 0.001 is 0.1%")
    sent = forms.IntegerField(label="packets sent", help_text="the loss was counted on", required=False)
    capacity_mbps = forms.FloatField(label="capacity", help_text="Mbit/s of TCP payload", required=False)
    mss_bytes = forms.FloatField(label="segment", help_text="bytes; 1460 on Ethernet", initial=MSS_BYTES)
    window_bytes = forms.FloatField(label="window", help_text="bytes of each stream", required=False)
    cc = forms.ChoiceField(
        label="congestion control",
        choices=[(one.value, one.value) for one in CongestionControl],
        initial=CongestionControl.CUBIC.value,
    )
    streams = forms.IntegerField(label="streams", help_text="side by side", initial=1)
    times = forms.FloatField(label="wanted", help_text="times as much", initial=2)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field, (forms.FloatField, forms.IntegerField)):
                # A browser's own check of steps would refuse 0.0001.
                field.widget.attrs["step"] = "any" if isinstance(field, forms.FloatField) else "1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the page says. `needs`: what the estimated rate asks of each stream; None for a mere bound."""

    shown: EstimateView
    times: float
    needs: str | None


def answer(figures: Figures) -> Answer | None:
    """The answer for valid figures; None where they are not, and the form says why."""
    if not figures.is_valid():
        return None
    given = figures.cleaned_data
    try:
        rtt, loss, transfer = from_typed(given)
        found = estimate(rtt, loss, transfer, given["times"])
    except FigureError as error:
        figures.add_error(NAME_OF_FIGURE.get(error.name, error.name), f"{error.wanted[:1].upper()}{error.wanted[1:]}.")
        return None
    if found.sign is None:
        figures.add_error(None, NOTHING_LIMITS)
        return None
    shown = estimate_view(PathEstimate(found, rtt, loss, transfer, sender=None), capacity_from="given")
    asked = needs(rtt, transfer, found)
    return Answer(shown, given["times"], None if asked is None else wording.at_this_rate(asked))
