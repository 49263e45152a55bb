"""The output of `python -m probes site status` for a data folder, with a running agent and without."""

import fcntl
import json
import os
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from probes.__main__ import main
from probes.disk_to_disk.spec import DiskToDiskSlot, DiskToDiskSpec
from probes.site.health import Health, InterfaceDrops, KernelClock
from probes.site.journal import DatedMessage, RunningCycle, WorkerState, write_state
from probes.site.plan import PlanCache
from probes.site.spool.spool import Spool
from probes.site.status import lines, read_status
from probes.site.wire import Plan, Refusal
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec
from tests.facts import lacks
from tests.unit.site.test_spool import result

HEALTH = Health(
    clock_offset_s=-0.0021,
    clock_uncertainty_s=0.004,
    kernel_clock=KernelClock(
        state="error", is_synchronised=False, offset_s=0, frequency_ppm=0, max_error_s=16, estimated_error_s=16
    ),
    load_1min=0.31,
    cpus=2,
    lost_ticks=3,
    drops=(InterfaceDrops(interface="eth0", received=5, sent=1),),
)


@pytest.fixture
def now():
    return datetime.now(UTC)


@pytest.fixture
def agent(tmp_path, now):
    """The folder of a working agent while it runs: with the lock held."""
    spool = Spool(tmp_path / "spool.sqlite3")
    spool.put([result(1), result(2), result(3)])
    batch = spool.next_batch(max_results=1, max_bytes=10**6, now=now, agent_version="0.1.0")
    spool.acknowledge(batch.number, [Refusal(sequence=batch.results[0].sequence, reason="path 1 is unknown")])
    PlanCache(tmp_path / "plan.json").store(Plan(version="3f2a", site="cern", mesh="test"))
    state = WorkerState(
        written_at=now - timedelta(seconds=2),
        started_at=now - timedelta(hours=1),
        agent_version="0.1.0",
        centre="https://centre.example",
        running=(RunningCycle(name="ping pinger", since=now - timedelta(seconds=7)),),
        last_accepted_at=now - timedelta(seconds=4),
        last_trouble=DatedMessage(at=now, message="deliver: batch 7: away"),
        health=HEALTH,
    )
    write_state(tmp_path / "state.json", state)
    with (tmp_path / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield tmp_path
    spool.close()


def status_lines(folder, now):
    return dict(line.split(maxsplit=1) for line in lines(read_status(folder, now), now))


def test_the_status_of_a_working_agent_has_all_its_tasks(agent, now):
    status = status_lines(agent, now)

    assert status["agent"].startswith(f"works (process {os.getpid()}, since ")
    assert status["agent"].endswith("version 0.1.0) for https://centre.example")
    assert status["plan"].startswith("3f2a ")
    assert lacks(status["plan"], " cern:", " 0 ping tests") == []
    assert status["running"] == "ping pinger for 7 s"
    assert status["queued"].startswith("2 results ")
    assert lacks(status["queued"], "backlog", " 1 quarantined", " 0 dropped", "last accepted 4 s ago") == []
    clock = "clock 0.002 s behind", "the centre's", "± 0.004 s", "not synchronised by NTP"
    assert lacks(status["health"], *clock, "load 0.31 on 2 CPUs", " 3 missed cycles", "eth0 dropped 5 in, 1 out") == []
    assert status["quarantined"] == "1 × path 1 is unknown"
    assert "dropped" not in status
    assert status["error"].endswith("deliver: batch 7: away")


def test_the_times_of_the_status_are_those_of_other_pages(agent, now):
    status = status_lines(agent, now)

    started_at = now - timedelta(hours=1)
    assert f"since {started_at:%Y-%m-%d %H:%M:%S} UTC, " in status["agent"]
    assert status["error"].startswith(f"{now:%Y-%m-%d %H:%M:%S} UTC ")


def test_quarantined_and_dropped_results_are_shown_with_reasons(tmp_path, now):
    spool = Spool(tmp_path / "spool.sqlite3", max_bytes=20_000)
    spool.put([result(label) for label in range(9)])
    batch = spool.next_batch(max_results=9, max_bytes=10**6, now=now, agent_version="0.1.0")
    reasons = ["a", "b", "c", "b", "d", "e", "f", "b", "g"]
    spool.acknowledge(1, [Refusal(sequence=n, reason=why) for n, why in enumerate(reasons, batch.results[0].sequence)])
    spool.put([result(1, "x" * 15_000), result(2, "x" * 15_000)])
    spool.close()

    status = status_lines(tmp_path, now)

    assert status["quarantined"] == "3 × b; 1 × a; 1 × c; 1 × d; 1 × e; 2 for other reasons"
    assert status["dropped"] == "1 ping (too_many)"


def test_a_running_slot_is_named_by_its_kind(agent, now):
    spool = Spool(agent / "spool.sqlite3")
    times = {"starts_at": now, "ends_at": now + timedelta(seconds=60), "path_id": 1, "test": "files", "role": "client"}
    spec = DiskToDiskSpec(address="192.0.2.2", source="192.0.2.1", duration_s=10, file_bytes=10**6, one_time_key="k")
    spool.claim_slot(DiskToDiskSlot(slot_id=5, spec=spec, **times), now)
    spool.claim_slot(ThroughputSlot(slot_id=6, spec=ThroughputSpec(address="192.0.2.2"), **times), now)
    spool.close()

    assert status_lines(agent, now)["running"] == "ping pinger for 7 s, disk-to-disk slot 5, throughput slot 6"


def test_json_has_the_same_status_and_exit_code(agent, capsys):
    assert main(["site", "status", "--data", str(agent), "--json"]) == 0

    status = json.loads(capsys.readouterr().out)
    assert status["works"] is True
    assert (status["plan"], status["spool"]["queued"], status["process_id"]) == ("3f2a", 2, os.getpid())
    assert status["state"]["health"]["lost_ticks"] == 3


def test_an_agent_with_a_silent_worker_is_not_working(agent, now):
    status = read_status(agent, now + timedelta(seconds=120))

    assert not status.works
    assert "does not respond" in lines(status, now)[0]
    assert lines(status, now)[2] == "running     nothing"


def test_without_an_agent_the_spool_is_shown_anyway(agent, now, tmp_path):
    (tmp_path / "agent.lock").unlink()

    status = status_lines(agent, now)

    assert "not running" in status["agent"]
    assert status["queued"].startswith("2 results ")
    assert lacks(status["queued"], "backlog", " 1 quarantined") == []


def test_an_empty_folder_is_reported_and_left_empty(tmp_path, capsys):
    assert main(["site", "--data", str(tmp_path), "status"]) == 1

    assert "none yet" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_spool_is_an_error_with_its_name(tmp_path, capsys):
    (tmp_path / "spool.sqlite3").write_text("no database, but long enough to be opened as a database")

    assert main(["site", "status", "--data", str(tmp_path)]) == 1

    assert lacks(capsys.readouterr().err, f" {tmp_path}/spool.sqlite3:", "not a database") == []


def test_an_agent_that_the_centre_refuses_shows_reason_and_fix(agent, now, capsys):
    state = read_status(agent, now).state
    refusal = "409 Conflict: another agent works for cern; stop one of the two"
    write_state(agent / "state.json", msgspec.structs.replace(state, refusal=DatedMessage(at=now, message=refusal)))

    status = status_lines(agent, now)

    assert status["agent"].startswith("measures (process")
    assert lacks(status["agent"], "https://centre.example refuses", "results", "stay in the backlog") == []
    assert status["running"] == "ping pinger for 7 s"
    assert status["refused"].endswith(refusal)
    assert main(["site", "status", "--data", str(agent)]) == 1
    assert refusal in capsys.readouterr().out
