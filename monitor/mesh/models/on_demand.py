"""Pings and traces that users request."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from statistics import median

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from monitor.mesh.models.places import Path
from probes.contract import Outcome


class RequestState(StrEnum):
    """State of an on-demand request: waiting for the agent's plan, fetched, running, or ended."""

    WAITING = "waiting"
    FETCHED = "fetched"
    RUNNING = "running"
    ENDED = "ended"


class PingRequest(models.Model):
    """On-demand pings of a path in both directions, each a `PingRun`."""

    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="ping_requests")
    asked_at = models.DateTimeField()
    asked_by = models.TextField()

    class Meta:
        db_table = "ping_request"
        indexes = [models.Index(fields=["path", "-asked_at"], name="ping_request_by_path")]

    @property
    def is_running(self) -> bool:
        return any(run.state is not RequestState.ENDED for run in self.runs.all())


class PingRun(models.Model):
    """On-demand pings from a path's source with the agent's newest report; no summary, alert or report reads them."""

    request = models.ForeignKey(PingRequest, on_delete=models.CASCADE, related_name="runs")
    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="ping_runs")
    fetched_at = models.DateTimeField(null=True, help_text="When its agent got it with its plan.")
    started_at = models.DateTimeField(null=True, help_text="By the centre's clock, as the agent reported it.")
    rtts_ms = ArrayField(
        models.FloatField(null=True), default=list, help_text="In sending order, null without a reply."
    )
    awaited = ArrayField(
        models.SmallIntegerField(), default=list, help_text="Indices of rtts_ms that may still be answered."
    )
    outcome = models.TextField(null=True, help_text="Of probes.contract.Outcome, or not_taken_up; null until it ended.")
    detail = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "ping_run"
        constraints = [
            models.UniqueConstraint(fields=["path"], condition=Q(ended_at=None), name="one_ping_run_per_path_at_a_time")
        ]

    @property
    def asked_at(self) -> datetime:
        return self.request.asked_at

    @property
    def state(self) -> RequestState:
        if self.outcome is not None:
            return RequestState.ENDED
        if self.started_at is not None:
            return RequestState.RUNNING
        return RequestState.WAITING if self.fetched_at is None else RequestState.FETCHED

    @property
    def is_measured(self) -> bool:
        return self.outcome == Outcome.MEASURED

    @property
    def sent(self) -> int:
        return len(self.rtts_ms)

    @property
    def replies_ms(self) -> list[float]:
        return [rtt_ms for rtt_ms in self.rtts_ms if rtt_ms is not None]

    @property
    def received(self) -> int:
        return len(self.replies_ms)

    @property
    def lost(self) -> int:
        return self.sent - self.received - len(self.awaited)

    @property
    def rtt_min_ms(self) -> float | None:
        return min(self.replies_ms, default=None)

    @property
    def rtt_median_ms(self) -> float | None:
        return median(self.replies_ms) if self.replies_ms else None

    @property
    def rtt_max_ms(self) -> float | None:
        return max(self.replies_ms, default=None)


class TraceRequest(models.Model):
    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="trace_requests")
    reason = models.TextField(help_text="As probes.trace.spec.TraceReason.")
    asked_at = models.DateTimeField()
    asked_by = models.TextField(help_text="A user, or an incident.")
    fetched_at = models.DateTimeField(null=True, help_text="When its agent got it with its plan.")

    class Meta:
        db_table = "trace_request"
        indexes = [models.Index(fields=["path", "-asked_at"], name="trace_request_by_path")]
