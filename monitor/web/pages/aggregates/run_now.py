"""Aggregate tests on demand from the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from monitor.api import limited_requests
from monitor.archive.queries.throughput.on_demand import OnDemandAggregate, TestState, on_demand_aggregates
from monitor.mesh.kinds.throughput import PROTOCOLS, ThroughputSettings, bits
from monitor.mesh.models import Host, Test
from monitor.mesh.schedule.on_demand import AggregateSettings, NoFreeSlot, OnDemandError, planned_tests, settings_of
from monitor.mesh.schedule.slots import IN_HAND_S
from monitor.web.pages.incidents.operate import answer, may_operate, problems

SHOWN_FOR = timedelta(hours=1)
SHAPES = (
    ("many-to-one", "many to one"), ("one-to-many", "one to many"), ("pairs", "pairs, in the order of the lists"),
)  # fmt: skip


class HostsForm(forms.Form):
    """`monitor.mesh.schedule.on_demand` checks the values."""

    shape = forms.ChoiceField(label="shape", choices=SHAPES)
    senders = forms.MultipleChoiceField(label="senders")
    receivers = forms.MultipleChoiceField(label="receivers")
    duration_s = forms.IntegerField(label="duration (s)", initial=10)
    streams = forms.IntegerField(label="streams of each", initial=1)
    protocol = forms.ChoiceField(
        label="protocol", choices=[(protocol_name, protocol_name.upper()) for protocol_name in PROTOCOLS]
    )
    rate_mbps = forms.FloatField(label="rate of each (Mbit/s)", required=False, min_value=0, max_value=1e6)

    def __init__(self, *args: Any, hosts: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("senders", "receivers"):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)
            field.choices = [(host, host) for host in hosts]

    @property
    def settings(self) -> AggregateSettings:
        """Raises `OnDemandError` for an invalid field."""
        if not self.is_valid():
            raise OnDemandError(problems(self))
        data = dict(self.cleaned_data)
        return AggregateSettings(
            shape=data.pop("shape"),
            senders=tuple(data.pop("senders")),
            receivers=tuple(data.pop("receivers")),
            settings=ThroughputSettings(rate_bps=bits(data.pop("rate_mbps")), **data),
        )


@dataclass(frozen=True, slots=True)
class RequestedTest:
    test: OnDemandAggregate
    now: datetime

    @property
    def status(self) -> str:
        test, count = self.test, len(self.test.members)
        if test.state is TestState.PLANNED:
            return f"begins in {max(0, round((test.starts_at - self.now).total_seconds()))} s"
        if test.state is TestState.RUNNING:
            return "running"
        return f"done, {test.reported} of {count} members reported" if test.state is TestState.AWAITED else "ended"

    @property
    def hosts(self) -> str:
        parameters = self.test.parameters
        return f"{', '.join(parameters['senders'])} → {', '.join(parameters['receivers'])}"

    @property
    def can_be_cancelled(self) -> bool:
        return self.test.starts_at > self.now + timedelta(seconds=IN_HAND_S)


@dataclass(frozen=True, slots=True)
class TestNow:
    form: HostsForm | None  # for operators only
    planned: tuple[Test, ...]  # for operators only
    requested: tuple[RequestedTest, ...]

    @property
    def is_running(self) -> bool:
        return any(not row.test.is_over for row in self.requested)


def test_now_of(request: HttpRequest, now: datetime) -> TestNow:
    """Form for operators, and the last hour's tests."""
    may_ask = may_operate(request)
    rows = on_demand_aggregates(now - SHOWN_FOR, now)
    return TestNow(
        form=HostsForm(hosts=_hosts()) if may_ask else None,
        planned=tuple(planned_tests()) if may_ask else (),
        requested=tuple(RequestedTest(test, now) for test in rows),
    )


@require_POST
def aggregate_now(request: HttpRequest) -> HttpResponse:
    """Request a test of mesh.toml (`test`) or of the form's hosts."""
    name = request.POST.get("test")

    def ask(who: str, now: datetime) -> None:
        settings = settings_of(name) if name else HostsForm(request.POST, hosts=_hosts()).settings
        limited_requests.ask_aggregate(settings, who, now)

    return answer(request, ask, f"{reverse('aggregates')}#test-now")


@require_POST
def cancel_aggregate(request: HttpRequest, slot_id: int) -> HttpResponse:
    """Cancel a test that no agent has fetched."""

    def cancel(who: str, now: datetime) -> None:
        if not limited_requests.cancel_aggregate(slot_id, who, now):
            raise NoFreeSlot(f"test {slot_id} has begun, or its agents have it in hand already")

    return answer(request, cancel, f"{reverse('aggregates')}#test-now")


def _hosts() -> tuple[str, ...]:
    hosts = Host.objects.filter(retired_at=None, for_throughput=True, site__has_agent=True, site__retired_at=None)
    return tuple(hosts.values_list("name", flat=True))
