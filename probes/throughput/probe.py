"""The two ends of a throughput test, which run iperf3 (`probes.transfers.iperf3`).

`Iperf3Probe` takes a `ThroughputSpec` and returns a `ThroughputRun`; its peer runs `Iperf3Server`.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.transfers import congestion_control
from probes.transfers.address import resolve_address
from probes.transfers.capture.of_test import ThroughputCapture
from probes.transfers.hosts.inventory import read_inventory, read_tcp_metrics
from probes.transfers.iperf3 import authentication
from probes.transfers.iperf3.errors import ServerBusy
from probes.transfers.iperf3.process import MISSING
from probes.transfers.iperf3.transfer import ServerStatistics, check_buffers, client_arguments, run_client, serve
from probes.transfers.spec import ThroughputRun, ThroughputSpec, with_metrics

# For a port of several to answer: four round trips and the start of iperf3.
SHORTEST_ANSWER_S, LONGEST_ANSWER_S = 1.0, 4.0


class Iperf3Probe:
    """The client of a throughput test."""

    def can_run(self, spec: ThroughputSpec) -> list[str]:
        reasons = [] if shutil.which("iperf3") else [MISSING]
        checks = (
            lambda: resolve_address(spec.address, spec.family),
            lambda: congestion_control.check(spec.congestion_control),
            lambda: check_buffers(spec),
        )
        for check in checks:
            try:
                check()
            except ProbeError as error:
                reasons.append(str(error))
        return reasons

    def run(self, spec: ThroughputSpec, deadline: Deadline) -> ThroughputRun:
        """Send to `spec.address`. Raises `ProbeError`.

        Of several ports, failed ones are skipped, from a random first.
        """
        address = resolve_address(spec.address, spec.family)
        congestion_control.check(spec.congestion_control)
        check_buffers(spec)
        ports = spec.ports
        failures = list[ProbeError]()
        for port in random.sample(ports, len(ports)):
            if failures and deadline.remaining_s < spec.length_s:
                break
            try:
                answer_s = None if len(ports) == 1 else _answer_s(spec, deadline)
                run = self._run_at(msgspec.structs.replace(spec, port=port), address, deadline, answer_s)
            except ProbeError as error:
                # A server without our authorization is no fault of this host: another port may have another.
                if error.figures or (error.permanent and not isinstance(error, NotPermitted)):
                    raise
                failures.append(error)
            else:
                return run if len(ports) == 1 else msgspec.structs.replace(run, detail=_with_port(run.detail, port))
        raise failures[0] if len(ports) == 1 else _failure_of_all(failures, len(ports))

    def _run_at(self, spec: ThroughputSpec, address: str, deadline: Deadline, answer_s: float | None) -> ThroughputRun:
        inventory, metrics = read_inventory(address), read_tcp_metrics(address, spec.source)
        started_at = datetime.now(UTC)
        with (
            authentication.client_credentials(spec.one_time_key, spec.peer_iperf3) as credentials,
            ThroughputCapture(spec, address) as capture,
        ):
            run = run_client(
                client_arguments(spec, address), spec, address, started_at, deadline, credentials, answer_s=answer_s
            )
        transfer = None if run.transfer is None else with_metrics(run.transfer, metrics, of_sender=not spec.reverse)
        captured = msgspec.UNSET if capture.result is None else capture.result
        return msgspec.structs.replace(run, inventory=inventory, transfer=transfer, capture=captured)


def _answer_s(spec: ThroughputSpec, deadline: Deadline) -> float:
    """Seconds in which a port must answer."""
    # Half, so that other ports can be tried after it.
    return min(LONGEST_ANSWER_S, max(SHORTEST_ANSWER_S, (deadline.remaining_s - spec.length_s) / 2))


def _failure_of_all(failures: Sequence[ProbeError], ports: int) -> ProbeError:
    outcomes = Counter(error.outcome for error in failures)
    tried = f"{outcomes[Outcome.BUSY]} of {ports} ports busy, {outcomes[Outcome.REFUSED]} refused"
    others = len(failures) - outcomes[Outcome.BUSY] - outcomes[Outcome.REFUSED]
    tried += f", {others} failed" if others else ""
    if not failures or outcomes[Outcome.BUSY]:
        return ServerBusy(tried if not others else f"{tried}: {failures[-1]}")
    (most_common, _), *_ = outcomes.most_common()
    return ProbeError(f"{tried}: {failures[-1]}", outcome=most_common)


def _with_port(detail: str | None, port: int) -> str:
    return f"port {port}" if detail is None else f"port {port}; {detail}"


class Iperf3Server:
    """The server of a throughput test (`probes.contract.FarEnd`)."""

    def serve(self, spec: ThroughputSpec, deadline: Deadline) -> ServerStatistics | None:
        inventory = read_inventory(spec.source)
        metrics = None if spec.source is None else read_tcp_metrics(spec.source, spec.address)
        statistics = serve(spec, deadline)
        return None if statistics is None else replace(statistics, inventory=inventory, metrics=metrics)

    def decline(self, spec: ThroughputSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """Do nothing: the server's report has the reason."""
