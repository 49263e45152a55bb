"""Whole agents, as a site runs them, with a small centre that stores by sequence; targets are loopback addresses."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.mesh.schedule.on_demand import ON_DEMAND_LEAD_S
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityTarget, CapacityTask
from probes.contract import Outcome
from probes.packets.spec import Burst, PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.wire import Delivered, Plan
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ServerReport, ThroughputRun, ThroughputSpec
from tests.unit.site.test_deliver import FakeCentre

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="ICMP sockets need root or ping_group_range"
)

ROOT = Path(__file__).parents[2]
FIRST, SECOND = "127.77.1.1", "127.77.2.1"
LOOPBACK = '[networks]\nallowed = ["127.77.0.0/16"]\n'
PATIENCE_S = 60.0
PLAN = "/api/agent/plan"


def wait_until(true, seconds=PATIENCE_S, why="not in time"):
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, why() if callable(why) else why
        time.sleep(0.05)
    return value


class Centre:
    """A fake centre that can be stopped and restarted at the same port."""

    def __init__(self, plan):
        self.plan = plan
        self.fake = None
        self.port = 0
        self.kept: dict[tuple[str, int], object] = {}
        self.start()

    def start(self):
        self.fake = FakeCentre(self.port)
        self.port = self.fake.server_port
        self.fake.plan = self.plan
        self.thread = threading.Thread(target=self.fake.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def stop(self):
        self.fake.shutdown()
        self.thread.join()
        self.fake.server_close()
        self.results()

    def results(self):
        """All delivered results, by spool and sequence: repeated results appear once."""
        for batch in list(self.fake.batches):
            for delivered in batch.results:
                stored = self.kept.setdefault((batch.spool, delivered.sequence), delivered)
                assert stored == delivered
        return list(self.kept.values())

    def bursts(self):
        return [delivered for delivered in self.results() if isinstance(delivered.result, Burst)]

    def measured(self):
        """On an overloaded machine some cycles are busy."""
        bursts = self.bursts()
        assert {burst.result.outcome for burst in bursts} <= {Outcome.MEASURED, Outcome.BUSY}
        return [burst for burst in bursts if burst.result.outcome is Outcome.MEASURED]

    def runs(self):
        return [delivered for delivered in self.results() if isinstance(delivered.result, ThroughputRun)]

    def served(self):
        return [delivered for delivered in self.results() if isinstance(delivered.result, ServerReport)]


class Agent:
    """`python -m probes site` as a process."""

    def __init__(self, folder, centre_port, *options):
        self.data = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "limits.toml").write_text(LOOPBACK)
        token = folder.parent / "token"
        token.write_text("token")
        token.chmod(0o600)
        self.output = (folder / "supervisor.log").open("ab")
        command = [sys.executable, "-m", "probes", "site", "--centre", f"http://127.0.0.1:{centre_port}"]
        self.process = subprocess.Popen(
            [*command, "--token-file", str(token), "--data", str(folder), *options],
            cwd=ROOT,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    def children(self):
        """Process id of the worker, by its name."""
        pids = {}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            pids["worker" if b"probes.site.worker" in words else repr(words)] = int(pid)
        return pids

    def spooled_at(self):
        """Start times of the bursts that wait in the spool."""
        with sqlite3.connect(f"file:{self.data / 'spool.sqlite3'}?mode=ro", uri=True, timeout=10) as spool:
            bodies = spool.execute("SELECT body FROM result").fetchall()
        spool.close()
        return [msgspec.json.decode(body, type=Delivered).result.started_at for (body,) in bodies]

    def log(self):
        files = [self.data / "supervisor.log", *sorted((self.data / "log").glob("*.log"))]
        return "\n".join(f"--- {file.name}\n{file.read_text()[-3000:]}" for file in files if file.exists())

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(timeout=30)
        self.output.close()
        return status


def is_loaded(delivered):
    """Whether packets of a burst were sent during a throughput test."""
    return delivered.result.loaded_rtts_ms is not None


def pinger(*targets, every_s=2):
    spec = PingSpec(targets=targets, packet_bytes=(100,), count=2, spacing_s=0.2, timeout_s=0.5)
    return PingTask(test="pinger", every_s=every_s, spec=spec)


def target(address, path_id, source=None):
    return PingTarget(address=address, path_id=path_id, source=source)


@pytest.fixture
def agents():
    running = []
    yield running
    for agent in running:
        if agent.process.poll() is None:
            agent.stop()


@pytest.fixture
def centres():
    running = []
    yield running
    for centre in running:
        if centre.thread.is_alive():
            centre.stop()


def start(agents, centres, folder, plan, *options):
    centre = Centre(plan)
    centres.append(centre)
    agent = Agent(folder, centre.port, *options)
    agents.append(agent)
    return agent, centre


def test_an_agent_survives_kills_and_a_centre_outage(tmp_path, agents, centres):
    """Worker killed, centre stopped and restarted, agent stopped: every spooled cycle arrives once, and
    no process remains."""
    plan = Plan(
        version="v1", site="slac", mesh="test", ping=(pinger(target(SECOND, 1, FIRST), target("127.77.9.9", 2)),)
    )
    agent, centre = start(agents, centres, tmp_path / "agent", plan)

    wait_until(lambda: len(centre.measured()) >= 4, why=agent.log)
    first = centre.measured()
    assert "INFO probes.site.plan: plan: version v1 for site slac" in (agent.data / "log" / "worker.log").read_text()
    assert {burst.path_id for burst in first} == {1, 2}
    assert all(burst.result.received == 2 for burst in first)
    processes = agent.children()

    assert processes.keys() == {"worker"}
    os.kill(processes["worker"], signal.SIGKILL)
    killed_at = datetime.now(UTC)
    wait_until(lambda: any(burst.result.started_at > killed_at for burst in centre.measured()), why=agent.log)

    centre.stop()
    gone_at = datetime.now(UTC)
    wait_until(lambda: datetime.now(UTC) > gone_at + timedelta(seconds=5))
    back_at = datetime.now(UTC)
    centre.start()
    wait_until(lambda: any(burst.result.started_at > back_at for burst in centre.measured()), why=agent.log)
    meanwhile = [burst for burst in centre.bursts() if gone_at < burst.result.started_at < back_at]
    assert len(meanwhile) >= 2

    processes |= agent.children()
    assert agent.stop() == 0, agent.log()
    for pid in processes.values():
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), why=agent.log)
    sequences = [sequence for _, sequence in centre.kept]
    assert sorted(sequences) == list(range(1, max(sequences) + 1)), "a result that was spooled is missing"


def test_a_restarted_agent_measures_offline_and_delivers_later(tmp_path, agents, centres):
    plan = Plan(version="v1", site="slac", mesh="test", ping=(pinger(target(SECOND, 1)),))
    agent, centre = start(agents, centres, tmp_path / "agent", plan)
    wait_until(lambda: centre.bursts(), why=agent.log)
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.process.wait()
    centre.stop()

    away_since = datetime.now(UTC)
    again = Agent(tmp_path / "agent", centre.port)
    agents.append(again)
    offline_starts = wait_until(lambda: [at for at in again.spooled_at() if at > away_since], why=again.log)
    centre.start()

    wait_until(lambda: set(offline_starts) <= {burst.result.started_at for burst in centre.bursts()}, why=again.log)


def test_a_second_agent_in_the_same_folder_is_refused(tmp_path, agents, centres):
    plan = Plan(version="v1", site="slac", mesh="test")
    agent, centre = start(agents, centres, tmp_path / "agent", plan)
    wait_until(lambda: "worker runs" in agent.log(), why=agent.log)

    second = Agent(tmp_path / "agent", centre.port)
    agents.append(second)

    assert second.process.wait(timeout=30) == 1
    assert f"another agent runs on {tmp_path / 'agent'} (process {agent.process.pid})" in agent.log()


@pytest.mark.skipif(shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed")
def test_two_agents_test_throughput_in_their_slot(tmp_path, agents, centres):
    """Client and server in their own agents; a slot that has passed is missed, a forbidden slot names the rule, and
    pings measured during the test are tagged."""
    starts_at = datetime.now(UTC) + timedelta(seconds=8)
    spec = ThroughputSpec(address=SECOND, source=FIRST, port=5277, duration_s=4)
    window = {"path_id": 7, "test": "tcp", "starts_at": starts_at, "ends_at": starts_at + timedelta(seconds=9)}
    past = {**window, "starts_at": starts_at - timedelta(hours=1), "ends_at": starts_at - timedelta(minutes=59)}
    long = ThroughputSpec(address=SECOND, source=FIRST, port=5278, duration_s=20)
    later = {**window, "ends_at": starts_at + timedelta(seconds=25)}
    client_plan = Plan(
        version="c1",
        site="slac",
        mesh="test",
        ping=(pinger(target(SECOND, 1, FIRST)),),
        throughput=(
            ThroughputSlot(slot_id=1, role="client", spec=spec, **window),
            ThroughputSlot(slot_id=2, role="client", spec=spec, **past),
            ThroughputSlot(slot_id=3, role="client", spec=long, **later),
        ),
    )
    server_plan = Plan(
        version="s1",
        site="cern",
        mesh="test",
        throughput=(ThroughputSlot(slot_id=1, role="server", spec=spec, **window),),
    )
    limits = tmp_path / "limits.toml"
    limits.write_text(f"{LOOPBACK}[throughput]\nmax_duration_s = 10\n")
    client, client_centre = start(agents, centres, tmp_path / "slac" / "data", client_plan, "--limits", str(limits))
    _, server_centre = start(agents, centres, tmp_path / "cern" / "data", server_plan)

    wait_until(lambda: len(client_centre.runs()) >= 3, why=client.log)

    runs = {result.slot_id: result.result for result in client_centre.runs()}
    assert runs[1].outcome is Outcome.MEASURED, runs[1].detail
    assert runs[1].throughput_bps > 1e6
    assert 3.5 < runs[1].duration_s < 6
    assert (runs[2].outcome, runs[2].throughput_bps) == (Outcome.MISSED, None)
    assert runs[3].outcome is Outcome.NOT_PERMITTED
    assert runs[3].detail == "throughput.max_duration_s: 20 s wanted, 10 s allowed"
    assert starts_at <= runs[1].started_at < window["ends_at"]
    assert server_centre.runs() == []
    ended_at = runs[1].started_at + timedelta(seconds=runs[1].duration_s)
    wait_until(
        lambda: any(burst.result.started_at > ended_at and not is_loaded(burst) for burst in client_centre.measured()),
        why=client.log,
    )
    bursts = client_centre.measured()
    during = [result for result in bursts if runs[1].started_at <= result.result.started_at <= ended_at]
    before = [result for result in bursts if result.result.started_at < starts_at - timedelta(seconds=1)]
    assert all(is_loaded(burst) for burst in during)
    assert not any(is_loaded(burst) for burst in before)
    assert any(is_loaded(burst) for burst in bursts)


@pytest.mark.skipif(shutil.which("iperf3") is None and not os.environ.get("CI"), reason="iperf3 is not installed")
@pytest.mark.parametrize("reverse", [False, True])
def test_an_on_demand_test_runs_as_soon_as_it_is_planned(tmp_path, agents, centres, reverse):
    """Running agents learn of a slot that begins `ON_DEMAND_LEAD_S` later, and both report their part of it. With
    `reverse` the receiving end connects."""
    empty = {site: Plan(version=f"{site}1", site=site, mesh="test") for site in ("slac", "cern")}
    client, client_centre = start(agents, centres, tmp_path / "slac" / "data", empty["slac"])
    server, server_centre = start(agents, centres, tmp_path / "cern" / "data", empty["cern"])
    wait_until(lambda: "worker runs" in client.log() and "worker runs" in server.log(), why=client.log)
    for centre in (client_centre, server_centre):
        wait_until(lambda centre=centre: [path for path, _ in centre.fake.requests].count(PLAN) >= 2, why=client.log)

    starts_at = datetime.now(UTC) + timedelta(seconds=ON_DEMAND_LEAD_S)
    spec = ThroughputSpec(address=SECOND, source=FIRST, port=5291, duration_s=3, reverse=reverse)
    window = {"path_id": 7, "test": "on-demand", "starts_at": starts_at, "ends_at": starts_at + timedelta(seconds=8)}
    for centre, role in ((client_centre, "client"), (server_centre, "server")):
        slot = ThroughputSlot(slot_id=9, role=role, spec=spec, **window)
        centre.fake.plan = msgspec.structs.replace(centre.fake.plan, version="asked", throughput=(slot,))

    wait_until(lambda: client_centre.runs() and server_centre.served(), why=client.log)
    [run] = client_centre.runs()
    [served] = server_centre.served()
    assert run.result.outcome is Outcome.MEASURED, run.result.detail
    assert (run.slot_id, served.slot_id) == (9, 9)
    assert timedelta() <= run.result.started_at - starts_at < timedelta(seconds=5)
    assert (served.result.outcome, served.result.sends) == (Outcome.MEASURED, reverse)
    assert served.result.wanted_ratio > 0.0
    assert (served.result.kernel is not None) is reverse


def test_capacities_are_measured_without_an_agent_at_the_far_end(tmp_path, agents, centres):
    target = CapacityTarget(path_id=7, spec=CapacitySpec(address=SECOND, source=FIRST))
    refused = CapacityTarget(path_id=8, spec=CapacitySpec(address="127.77.9.9"))
    limits = tmp_path / "limits.toml"
    limits.write_text(f'{LOOPBACK}forbidden = ["127.77.9.0/24"]\n[ping]\nmin_spacing_s = 0.01\n')
    plan = Plan(
        version="v1",
        site="slac",
        mesh="test",
        capacity=(CapacityTask(test="narrowest", every_s=45, targets=(target, refused)),),
    )

    agent, centre = start(agents, centres, tmp_path / "agent", plan, "--limits", str(limits))

    wait_until(lambda: {delivered.path_id for delivered in centre.results()} == {7, 8}, seconds=120, why=agent.log)
    by_path = {delivered.path_id: delivered.result for delivered in centre.results()}
    assert all(isinstance(result, CapacityRun) for result in by_path.values())
    assert (by_path[7].outcome, by_path[7].address, by_path[7].sent) == (Outcome.MEASURED, SECOND, 184)
    assert by_path[7].verdict is not None  # the speed of loopback is not that of a link
    assert (by_path[8].outcome, by_path[8].sent) == (Outcome.NOT_PERMITTED, 0)
