"""The usable congestion controls of this host's kernel: from a socket and from sysctl."""

import os
import subprocess

import pytest

from probes.contract import Deadline, Outcome, ProbeError
from probes.throughput.probe import Iperf3Probe
from probes.transfers import congestion_control
from probes.transfers.iperf3.transfer import serve
from probes.transfers.spec import ThroughputSpec
from tests.iperf3_runs import measure

NOBODY = 65534
UNKNOWN = ThroughputSpec(address="127.0.0.1", port=1, duration_s=1, congestion_control="nosuch")


def listed(which):
    """sysctl's current list; it grows when a module is loaded."""
    output = subprocess.check_output(["sysctl", "-n", f"net.ipv4.tcp_{which}_congestion_control"], text=True)
    return sorted(output.split())


def test_algorithms_of_sysctl_and_the_kernels_default_are_usable():
    available = listed("available")
    assert available
    for name in (*available, None):
        congestion_control.check(name)


def test_another_name_is_refused_with_the_available_names():
    with pytest.raises(ProbeError) as refused:
        congestion_control.check("nosuch")

    assert refused.value.permanent
    assert "nosuch" in str(refused.value)
    assert f" {', '.join(listed('available'))}; " in str(refused.value)
    assert "modprobe tcp_nosuch" in str(refused.value)


def test_both_ends_check_the_algorithm_before_they_begin():
    assert any("nosuch" in reason for reason in Iperf3Probe().can_run(UNKNOWN))
    run = measure(UNKNOWN, Deadline(5))
    assert (run.outcome, run.throughput_bps) == (Outcome.TOOL_FAILURE, None)
    assert "nosuch" in run.detail
    with pytest.raises(ProbeError, match="nosuch"):
        serve(UNKNOWN, Deadline(5))


@pytest.fixture
def ordinary_user(root_required):
    """Root's privileges dropped for a while."""
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def test_an_ordinary_user_has_the_allowed_algorithms(ordinary_user):
    available, allowed = listed("available"), listed("allowed")
    assert allowed
    for name in allowed:
        congestion_control.check(name)
    for name in set(available) - set(allowed):
        with pytest.raises(ProbeError) as refused:
            congestion_control.check(name)
        assert refused.value.outcome is Outcome.NOT_PERMITTED
        assert name in str(refused.value)
        assert f" {', '.join(allowed)}; " in str(refused.value)
