"""Plants a new path whose host answers from its second burst on.

The host is the IPv6 address of a site of the lab, which that site loses until a burst has passed. It is measured from
the IPv6 address of another site, so the paths of the lab remain as they are.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from probes.lab.mesh import limits_toml, namespace_addresses
from probes.lab.scenario import load_scenario
from tests.e2e.faults import agent_processes
from tests.e2e.stack import RunningStack, wait_for
from tests.lab_truth.faults import PlannedChange
from tests.lab_truth.planting import Record, change_line
from tests.lab_truth.stored import SCENARIO
from tests.lab_truth.truth import Signal

SOURCE = "slac"
NEW_SITES = (("kek", "cern"), ("desy", "ornl"), ("fnal", "nersc"), ("ihep", "in2p3"))
"""A site for each time, and the site of the lab that has its address: a path that comes back is not new."""
BURST_S = 10.0
SPARE_S = 0.7
"""The address is back so long before the second burst: a command in the lab takes half a second."""
WATCH_EVERY_S = 0.5


class NewPathPlanting:
    """A path of a site that the mesh does not have before."""

    def __init__(self, stack: RunningStack, lasts_s: float, turn: int, record: Record) -> None:
        self._stack, self._lasts_s, self._record = stack, lasts_s, record
        self._name, self._at = NEW_SITES[turn]
        self._mesh = stack.data / "lab" / "mesh.toml"
        self._usual_mesh = self._mesh.read_text()
        self._before = 0
        self._watched_s = 0.0
        self._first_s: float | None = None
        self._is_planted = self._answers = self._is_restored = False

    def step(self, since_begin_s: float) -> None:
        if not self._is_planted:
            self._plant()
        elif self._first_s is None:
            self._watch(since_begin_s)
        elif not self._answers and since_begin_s >= self._first_s + BURST_S - SPARE_S:
            self._answer()
        elif since_begin_s >= self._lasts_s:
            self.restore()

    def restore(self) -> None:
        if self._is_planted and not self._is_restored:
            self._is_restored = True
            if not self._answers:
                self._answer()
            self._apply(self._usual_mesh)

    def _plant(self) -> None:
        self._is_planted = True
        self._change_address("del")
        self._before = self._received()
        self._record({"type": "path", "source": SOURCE, "destination": self._name, "host_at": self._at})
        self._apply(mesh_with_new_path(self._usual_mesh, self._name, self._at))

    def _watch(self, since_begin_s: float) -> None:
        if since_begin_s - self._watched_s >= WATCH_EVERY_S:
            self._watched_s = since_begin_s
            if self._received() > self._before:
                self._first_s = since_begin_s
                self._record(change_line(PlannedChange(0, Signal.LOSS, SOURCE, self._name, 1.0)))

    def _answer(self) -> None:
        self._answers = True
        self._change_address("add")
        if self._first_s is not None:
            self._record(change_line(PlannedChange(0, Signal.LOSS, SOURCE, self._name, None)))

    def _apply(self, text: str) -> None:
        file = Path(self._mesh.parent, "new.toml")
        file.write_text(text)
        self._stack.manage("mesh", "apply", str(file))

    def _change_address(self, verb: str) -> None:
        nodad = ["nodad"] if verb == "add" else []
        address = f"{_address(self._at)}/128"
        self._stack.lab("exec", self._at, "ip", "-6", "addr", verb, address, "dev", "wan0", *nodad)

    def _received(self) -> int:
        """The number of IPv6 packets that have reached the site."""
        counters = self._stack.lab("exec", self._at, "cat", "/proc/net/snmp6")
        found = re.search(r"Ip6InReceives\s+(\d+)", counters)
        return 0 if found is None else int(found[1])


def mesh_with_new_path(usual: str, name: str, at: str) -> str:
    """The lab's mesh.toml with the site `name`, whose address is of the site `at`, and a ping to it from the source's
    IPv6 address."""
    scenario = load_scenario(SCENARIO)
    host = f'address = "{namespace_addresses(scenario)[SOURCE][0]}"\n'
    six = f'{host}\n[[site.host]]\naddress = "{_address(SOURCE)}"\nname = "{SOURCE}-ipv6"\nmeasures = ["ping"]\n'
    return f"""{usual.replace(host, six, 1)}
[[site]]
name = "{name}"
title = "A new site"
latitude_deg = 36.15
longitude_deg = 140.08
country = "JP"
region = "East Asia"

[[site.host]]
address = "{_address(at)}"

[[group]]
name = "new"
shape = "between"
from = ["{SOURCE}"]
to = ["{name}"]
tests = ["ping"]
"""


def allow_new_path(stack: RunningStack) -> None:
    """Permit the source to measure the lab's IPv6 addresses too, and start its agent again with these limits."""
    limits = limits_toml(namespace_addresses(load_scenario(SCENARIO), (4, 6)))
    (stack.data / "sites" / SOURCE / "limits.toml").write_text(limits)
    agents = agent_processes(stack, SOURCE)
    for process in agents:
        os.kill(process, signal.SIGTERM)
    wait_for(lambda: not set(agents) & set(agent_processes(stack, SOURCE)), 60, "the agent has ended")
    wait_for(lambda: agent_processes(stack, SOURCE), 60, "the agent runs again")


def _address(site: str) -> str:
    return namespace_addresses(load_scenario(SCENARIO), (6,))[site][0]
