"""TCP throughput calculator: `manage.py estimate` for typed figures. Stores and reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms

from monitor.analysis.tcp import (
    LOSS_SOURCES,
    MSS_BYTES,
    NAME_OF_FIGURE,
    CongestionControl,
    FigureError,
    estimate,
    from_typed,
    needs,
    wording,
)
from monitor.analysis.tcp.moving import moving_words, parse_size
from monitor.archive.queries.path_estimates import PathEstimate
from monitor.web.pages.path.transfer import EstimateView, estimate_view

NOTHING_LIMITS = (
    "No estimate: a loss of 0 is no limit, nor is a rate of retransmits, and there is no other limit. Give a window or"
    " a capacity."
)


class LossField(forms.FloatField):
    """Loss as `0.001` or `0.1%`; the value is the ratio."""

    # A number input of a browser would not accept the percent sign.
    widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def to_python(self, value: Any) -> Any:
        text = str(value).strip() if value is not None else ""
        number = super().to_python(text.removesuffix("%"))
        return number / 100 if number is not None and text.endswith("%") else number


class CalculatorForm(forms.Form):
    """Fields named as the command's options."""

    rtt_ms = forms.FloatField(label="RTT", help_text="ms, median")
    rtt_p10_ms = forms.FloatField(label="RTT 10th percentile", help_text="ms, for the interval", required=False)
    rtt_p90_ms = forms.FloatField(label="RTT 90th percentile", help_text="ms, for the interval", required=False)
    loss_ratio = LossField(label="loss", help_text="percent, or a ratio from 0 to 1: 0.1% or 0.001")
    loss_from = forms.ChoiceField(
        label="the loss is", choices=[("", "choose…"), *LOSS_SOURCES.items()], help_text="not for 0", required=False
    )
    sent = forms.IntegerField(label="sample size of the loss", help_text="packets sent", required=False)
    capacity_mbps = forms.FloatField(label="capacity", help_text="Mbit/s of TCP payload", required=False)
    mss_bytes = forms.FloatField(label="MSS", help_text="bytes; 1460 on Ethernet", initial=MSS_BYTES)
    window_bytes = forms.FloatField(label="window", help_text="bytes per stream", required=False)
    cc = forms.ChoiceField(
        label="congestion control",
        choices=[(control.value, control.value) for control in CongestionControl],
        initial=CongestionControl.CUBIC.value,
    )
    streams = forms.IntegerField(label="parallel streams", initial=1)
    move = forms.CharField(label="move", help_text="a size, such as 5TB: how long it takes", required=False)
    times = forms.FloatField(label="target speed-up", help_text="factor", initial=2)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field.widget, forms.NumberInput):
                # A browser's own check of steps would refuse 0.0001.
                field.widget.attrs["step"] = "any" if isinstance(field, forms.FloatField) else "1"


@dataclass(frozen=True, slots=True)
class CalculatorResult:
    shown: EstimateView
    times: float
    needs: str | None  # requirements of the estimated rate on each stream; None for a bound
    moving: tuple[str, ...]  # time to move the given size, and settings that shorten it


def answer(figures: CalculatorForm) -> CalculatorResult | None:
    """Estimate; None leaves errors on the form."""
    if not figures.is_valid():
        return None
    given = figures.cleaned_data
    try:
        rtt, loss, transfer = from_typed(given)
        result = estimate(rtt, loss, transfer, given["times"])
        move_bytes = parse_size(given["move"]) if given["move"] else None
    except FigureError as error:
        figures.add_error(NAME_OF_FIGURE.get(error.name, error.name), f"{error.wanted[:1].upper()}{error.wanted[1:]}.")
        return None
    if result.sign is None:
        figures.add_error(None, NOTHING_LIMITS)
        return None
    shown = estimate_view(PathEstimate(result, rtt, loss, transfer, sender=None), capacity_from="given")
    moving = () if move_bytes is None else tuple(moving_words(move_bytes, result, rtt, transfer))
    needed = needs(rtt, transfer, result)
    return CalculatorResult(shown, given["times"], None if needed is None else wording.at_this_rate(needed), moving)
