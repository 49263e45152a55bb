"""Pings that a user requested: sent once, within the limits, with replies reported as they arrive, not spooled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from probes.contract import Deadline, NotPermitted, ProbeError, Target
from probes.packets.engine.packet_outcomes import EchoResults
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping import kind as ping
from probes.ping.live import live_replies
from probes.ping.spec import PingTask
from probes.site.delivery.centre import CentreError
from probes.site.runner.failures import failure_of
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.wire import OnDemandPing, OnDemandPingReport

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 0.5
RETRY_S = 2.0
# How long the last report is retried; the page that waits for it gives up later.
GIVE_UP_S = 30.0

Send = Callable[[OnDemandPingReport], None]


class OnDemandPings:
    """Runs on-demand pings; several run side by side."""

    def __init__(
        self,
        permit: Permit,
        own_tests: OwnTests,
        send: Send,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`send` raises `CentreError`; `now` is by the centre's clock."""
        self._permit = permit
        self._own_tests = own_tests
        self._send = send
        self._now = now

    def run(self, request: OnDemandPing, planned: Sequence[PingTask]) -> None:
        if self._now() > request.begin_by:
            logger.warning("on-demand ping %d: too late, it was to begin by %s", request.run_id, request.begin_by)
            return
        reporter = _Reporter(self._send)
        try:
            report = self._measure(request, planned, reporter)
        except Exception as error:  # noqa: BLE001 - failure_of is the rule
            failure = failure_of(error, f"on-demand ping {request.run_id}")
            report = OnDemandPingReport(
                run_id=request.run_id, started_at=self._now(), outcome=failure.outcome, detail=str(failure)
            )
        logger.info("on-demand ping %d to %s: %s", request.run_id, request.address, report.outcome)
        reporter.finish(report)

    def _measure(self, request: OnDemandPing, planned: Sequence[PingTask], reporter: _Reporter) -> OnDemandPingReport:
        """Returns the last report. Raises `ProbeError`."""
        task, started_at, clock_started_at = _task(request), self._now(), datetime.now(UTC)

        def progress(results: EchoResults) -> None:
            replies = live_replies(results, request.timeout_s, time.time_ns())
            reporter.show(
                OnDemandPingReport(
                    run_id=request.run_id, started_at=started_at, rtts_ms=replies.rtts_ms, awaited=replies.awaited
                )
            )

        with self._permit.targets(ping.KIND, task, ping.KIND.targets(task), planned) as [verdict]:
            if isinstance(verdict, NotPermitted) and planned:
                raise NotPermitted(f"{verdict} (the scheduled pings included)")
            if isinstance(verdict, ProbeError):
                raise verdict
            reporter.show(OnDemandPingReport(run_id=request.run_id, started_at=started_at))
            burst = self._burst(task, verdict, progress)
        loaded = self._own_tests.overlap(clock_started_at, datetime.now(UTC))
        notes = [burst.detail, "a throughput test ran on this host meanwhile" if loaded else None]
        return OnDemandPingReport(
            run_id=request.run_id,
            started_at=started_at,
            rtts_ms=burst.rtts_ms,
            outcome=burst.outcome,
            detail="; ".join(note for note in notes if note) or None,
        )

    def _burst(self, task: PingTask, target: Target, progress: Callable[[EchoResults], None]) -> Burst:
        spec = self._permit.spec(ping.KIND, task, [target])
        probe = ping.KIND.probe()
        run: Callable[..., tuple[Burst, ...]] = probe.run
        (burst,) = run(spec, Deadline(ping.KIND.longest_s(spec)), None, progress)
        return burst


class _Reporter:
    """Sends the newest report from its own thread, so that a slow centre delays no packet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._newest: OnDemandPingReport | None = None
        self._shown: OnDemandPingReport | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="on-demand pings", daemon=True)
        self._thread.start()

    def show(self, report: OnDemandPingReport) -> None:
        with self._changed:
            if report != self._shown:
                self._newest = self._shown = report
                self._changed.notify()

    def finish(self, report: OnDemandPingReport) -> None:
        self._is_over.set()
        self.show(report)
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None)
                report, self._newest = self._newest, None
            if report is None:
                continue
            if report.outcome is not None:
                self._send_last(report)
                return
            try:
                self._send(report)
            except CentreError as error:
                logger.debug("on-demand ping %d: %s", report.run_id, error)
            self._is_over.wait(REPORT_EVERY_S)

    def _send_last(self, report: OnDemandPingReport) -> None:
        deadline = Deadline(GIVE_UP_S)
        while True:
            try:
                self._send(report)
            except CentreError as error:
                is_refused = error.status is not None and 400 <= error.status < 500 and error.status != 429
                if is_refused or deadline.remaining_s < RETRY_S:
                    logger.warning("on-demand ping %d: not reported: %s", report.run_id, error)
                    return
                time.sleep(RETRY_S)
            else:
                return


def _task(request: OnDemandPing) -> PingTask:
    target = PingTarget(address=request.address, family=request.family, source=request.source, path_id=request.path_id)
    spec = PingSpec(
        targets=(target,),
        packet_bytes=(request.packet_bytes,),
        count=request.count,
        spacing_s=request.spacing_s,
        timeout_s=request.timeout_s,
        late_s=0.0,
        check_rate_limit=False,
    )
    return PingTask(test=f"on-demand ping {request.run_id}", every_s=3600, spec=spec)
