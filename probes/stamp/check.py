"""Checks for `site doctor`: this host's clock, and the reflector's port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.contract import CheckResult, NotPermitted, ProbeError
from probes.stamp.clocks import own_clock
from probes.stamp.engine.channel import ReflectorChannel
from probes.stamp.limits import StampLimits
from probes.stamp.spec import ReflectorPlan, StampTask


def check_stamp(limits: StampLimits, tasks: Sequence[StampTask]) -> Iterator[CheckResult]:
    if not tasks:
        return
    clock = own_clock()
    if clock is None or clock.error_ms is None:
        yield CheckResult(
            check="clock",
            detail="not synchronised: delays of each direction are known only to within the RTT",
            fix="run chrony or another NTP client on this host",
        )
    else:
        yield CheckResult(check="clock", detail=f"within {clock.error_ms:.3g} ms, by {clock.source}")


def check_reflector(limits: StampLimits, reflector: ReflectorPlan | None) -> Iterator[CheckResult]:
    if reflector is not None and limits.reflect:
        yield _check_port(reflector.port)


def _check_port(port: int) -> CheckResult:
    name = f"UDP port {port}"
    try:
        ReflectorChannel(4, port).close()
    except NotPermitted as error:
        return CheckResult(check=name, detail="may not be opened", fix=str(error))
    except ProbeError:
        return CheckResult(check=name, detail="in use, as by the agent's reflector")
    return CheckResult(check=name, detail="free for the reflector")
