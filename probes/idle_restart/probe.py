"""Tests slow start after idle between two agents."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from datetime import UTC, datetime

from probes.contract import Deadline, Outcome, ProbeError
from probes.idle_restart.spec import IdleRestartRun, IdleRestartSpec
from probes.idle_restart.transfer import NoTestCame, measure, serve
from probes.transfers.address import is_local, resolve_address

NO_KEY = "no one-time key; both ends need the same key"


class IdleRestartProbe:
    """The sender (`probes.contract.Probe`)."""

    def can_run(self, spec: IdleRestartSpec) -> list[str]:
        reasons = [] if spec.one_time_key is not None else [NO_KEY]
        try:
            resolve_address(spec.address, spec.family)
        except ProbeError as error:
            reasons.append(str(error))
        return reasons

    def run(self, spec: IdleRestartSpec, deadline: Deadline) -> IdleRestartRun:
        """Run the test to `IdleRestartEnd.serve`. Raises `ProbeError`."""
        started_at = datetime.now(UTC)
        address = resolve_address(spec.address, spec.family)
        source = None if spec.source is None else resolve_address(spec.source, spec.family)
        result = measure(spec, address, source if source is not None and is_local(source) else None)
        return IdleRestartRun(
            target=spec.address,
            address=address,
            family=spec.family,
            started_at=started_at,
            outcome=Outcome.MEASURED,
            **asdict(result),
        )


class IdleRestartEnd:
    """The receiver (`probes.contract.FarEnd`)."""

    def serve(self, spec: IdleRestartSpec, deadline: Deadline) -> str | None:
        """Receive a test's data; None if no sender came. Raises `ProbeError`."""
        own = resolve_address(spec.address, spec.family)
        address = own if is_local(own) else {4: "", 6: "::"}[spec.family]
        peer = None if spec.source is None else resolve_address(spec.source, spec.family)
        with contextlib.suppress(NoTestCame):
            serve(spec.port, deadline, address=address, peer=peer, key=spec.one_time_key)
            return "received"
        return None

    def decline(self, spec: IdleRestartSpec, outcome: Outcome, detail: str, deadline: Deadline) -> None:
        """Do nothing: nobody listens."""
