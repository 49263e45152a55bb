"""Everything of a centre on several machines is killed while agents deliver: `make test-ha`.

No result is lost or doubled, some delivery is accepted at least every ten seconds, and the alert rules go on: with each
kill all packets of another path begin to be lost, and its incident is there in time. SOUNDINGS_TEST_KILLS is the number
of kills (3), SOUNDINGS_TEST_AGENTS that of agents (10, at least one for each kill), SOUNDINGS_TEST_SEED chooses the
processes.
"""

import os
import random
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.e2e.stack import wait_for
from tests.ha.agents import Agents
from tests.ha.centre import whole_centre

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]
KILLS = int(os.environ.get("SOUNDINGS_TEST_KILLS", "3"))
AGENTS = max(int(os.environ.get("SOUNDINGS_TEST_AGENTS", "10")), KILLS)
SEED = os.environ.get("SOUNDINGS_TEST_SEED", str(random.randrange(10**6)))
LONGEST_GAP_S = 10.0
LONGEST_EVALUATION_GAP_S = 45.0
"""The rules run every 10 s; a new master of Redis takes some seconds, and a worker to connect to it."""
LONGEST_UNTIL_INCIDENT_S = 60.0
"""From the first lost packet: 15 s of lost bursts are enough for the rule, then the rules may pause as above."""
AFTER_KILL_S = 12.0
MESH = """
[mesh]
name = "Kills"
[[group]]
name = "all"
shape = "between"
from = [{names}]
to = ["beacon"]
tests = ["pinger"]
[[site]]
name = "beacon"
title = "Beacon"
latitude_deg = 0.0
longitude_deg = 0.0
country = "CH"
region = "Europe"
agent = false
[[site.host]]
address = "192.0.2.1"
"""
SITE = """
[[site]]
name = "{name}"
title = "Site"
latitude_deg = 1.0
longitude_deg = 1.0
country = "CH"
region = "Europe"
[[site.host]]
address = "192.0.2.{number}"
"""
PING = """
[[test]]
name = "pinger"
kind = "ping"
every_s = 60
count = 2
packet_bytes = [100]
"""


def prepare(centre):
    """Apply a mesh of the agents' sites, and give each a token."""
    names = [f"site-{number}" for number in range(AGENTS)]
    sites = "".join(SITE.format(name=name, number=number + 10) for number, name in enumerate(names))
    file = centre.folder / "mesh.toml"
    quoted = ", ".join(f'"{name}"' for name in names)
    file.write_text(MESH.format(names=quoted) + sites + PING)
    centre.manage("mesh", "apply", str(file))
    centre.manage("site", "token", *names, "--out-dir", str(centre.folder))


def gaps(times_s, since_s, until_s):
    """Pauses between these times, from the first moment to the last."""
    at = [since_s, *sorted(time_s for time_s in times_s if since_s < time_s < until_s), until_s]
    return [later - earlier for earlier, later in pairwise(at)]


AGENT_PATHS = """
SELECT site.name, path.id
FROM path
INNER JOIN host ON host.id = path.source_id
INNER JOIN site ON site.id = host.site_id
WHERE site.has_agent
"""
EVALUATED_AT = "SELECT extract(epoch FROM at)::float FROM last_run WHERE name = 'evaluation'"

INCIDENT_PATHS = "SELECT path_id, extract(epoch FROM min(added_at))::float FROM incident_path GROUP BY path_id"


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill: how long the centre took to full strength, the longest time without an accepted delivery, and the path
    whose packets were lost from then on, with the time since the epoch."""

    name: str
    took_s: float
    longest_s: float
    path_id: int
    cut_at_s: float


def test_a_centre_of_which_all_exists_twice_survives_any_kill(tmp_path, capsys):
    chosen = random.Random(SEED)
    kills, evaluated = [], set()
    with whole_centre(tmp_path, prepare) as centre:
        paths = dict(centre.query(AGENT_PATHS))
        agents = Agents(tmp_path, centre.urls, paths)
        agents.start()
        try:
            wait_for(lambda: len(agents.accepted_s) > 2 * AGENTS, 120, "all agents deliver")
            names = chosen.sample(centre.names, len(centre.names)) * (KILLS // len(centre.names) + 1)
            for name, path_id in zip(names[:KILLS], sorted(paths.values()), strict=False):
                killed_s, cut_at_s = time.monotonic(), time.time()
                agents.cut.add(path_id)
                centre.kill(name)
                back_s = time.monotonic()
                while time.monotonic() < back_s + AFTER_KILL_S:
                    evaluated.update(at for (at,) in centre.query(EVALUATED_AT))
                    time.sleep(0.5)
                longest_s = max(gaps(agents.accepted_s, killed_s, time.monotonic()))
                kills.append(Kill(name, back_s - killed_s, longest_s, path_id, cut_at_s))
            wait_for(lambda: agents.cut <= dict(centre.query(INCIDENT_PATHS)).keys(), 180, "all incidents are there")
            wait_for(lambda: agents.queued() == 0, 180, "all results are acknowledged")
        finally:
            agents.stop()
        first_at = dict(centre.query(INCIDENT_PATHS))
        stored = Counter(centre.query("SELECT path_id, measured_at FROM burst"))
    until_incident_s = [first_at[kill.path_id] - kill.cut_at_s for kill in kills]
    longest_evaluation_s = max(gaps(evaluated, min(evaluated), max(evaluated)))
    with capsys.disabled():
        print(f"\nseed {SEED}, {AGENTS} agents, {len(agents.spooled)} results, {len(stored)} stored")
        for kill, delay_s in zip(kills, until_incident_s, strict=True):
            print(
                f"{kill.name:<12} all back after {kill.took_s:5.1f} s; {kill.longest_s:4.1f} s without a delivery; "
                f"incident after {delay_s:4.1f} s"
            )
        print(f"{longest_evaluation_s:.0f} s without an evaluation of the rules")
    assert not set(agents.spooled) - stored.keys(), "lost"
    assert set(stored.values()) == {1}, "doubled"
    assert len(stored) == len(agents.spooled)
    assert max(kill.longest_s for kill in kills) < LONGEST_GAP_S
    assert longest_evaluation_s < LONGEST_EVALUATION_GAP_S
    assert first_at.keys() == agents.cut, "incidents of other paths"
    assert max(until_incident_s) < LONGEST_UNTIL_INCIDENT_S
