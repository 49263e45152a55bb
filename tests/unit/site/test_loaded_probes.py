"""The modules that an agent has in memory: those of the kinds in its plan, on small machines too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.wire import Plan
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget, TcpPingTask

AGENT_BEGINS = """
import sys
from pathlib import Path
from probes.site.agent import Agent
from probes.site.settings import AgentSettings
data = Path(sys.argv[1])
Agent(AgentSettings(centre="http://127.0.0.1:9", token_file=str(data / "token"), data=str(data))).begin()
print(*sys.modules)
"""
PING = PingTask(test="pinger", every_s=60, spec=PingSpec(targets=(PingTarget(address="127.0.0.1", path_id=1),)))
TCP_PING = TcpPingTask(
    test="https", every_s=60, spec=TcpPingSpec(targets=(TcpPingTarget(address="127.0.0.1", path_id=1),), port=443)
)


def loaded(code: str, *arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(("tasks", "expected"), [({"ping": (PING,)}, set()), ({"tcp_ping": (TCP_PING,)}, {"tcp_ping"})])
def test_an_agent_loads_the_probes_of_its_plan_alone(
    tmp_path: Path, tasks: dict[str, tuple[object, ...]], expected: set[str]
) -> None:
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(Plan(version="v1", site="here", mesh="m", **tasks)))

    modules = loaded(AGENT_BEGINS, str(tmp_path))

    others = ("tcp_ping", "policer", "capacity", "disk_to_disk", "interface")
    assert {kind for kind in others if f"probes.{kind}.probe" in modules} == expected


def test_reading_the_timestamps_of_a_block_loads_no_masked_arrays() -> None:
    code = """
import sys
from probes.packets.columns import RECORD
from probes.site.spool.blocks import stamps_of
from probes.site.wire import BurstBlock
texts = {"targets": ("a",), "addresses": ("a",), "source_addresses": ("a",)}
bursts = bytes(RECORD.itemsize)
print(*stamps_of(BurstBlock(test="t", family=4, clock_source=None, bursts=bursts, rtts_ns=b"", **texts)))
print(*sys.modules)
"""

    modules = loaded(code)

    assert "hardware" in modules
    assert "numpy.ma" not in modules
