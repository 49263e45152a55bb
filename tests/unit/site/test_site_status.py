"""What `python -m probes site status` tells of a data folder, with an agent on it and without."""

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
from probes.throughput.spec import ThroughputSlot, ThroughputSpec
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
    """A folder as a working agent leaves it while it runs: with the lock held."""
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


def told(folder, now):
    return dict(line.split(maxsplit=1) for line in lines(read_status(folder, now), now))


def test_a_working_agent_is_told_with_all_that_it_does(agent, now):
    shown = told(agent, now)

    assert shown["agent"].startswith(f"works (process {os.getpid()}, since ")
    assert shown["agent"].endswith("version 0.1.0) for https://centre.example")
    assert shown["plan"].startswith("3f2a ")
    assert lacks(shown["plan"], " cern:", " 0 ping tests") == []
    assert shown["running"] == "ping pinger for 7 s"
    assert shown["queued"].startswith("2 results ")
    assert lacks(shown["queued"], "backlog", " 1 quarantined", " 0 dropped", "last accepted 4 s ago") == []
    clock = "clock 0.002 s behind", "the centre's", "± 0.004 s", "not synchronised by NTP"
    assert lacks(shown["health"], *clock, "load 0.31 on 2 CPUs", " 3 missed cycles", "eth0 dropped 5 in, 1 out") == []
    assert shown["quarantined"] == "1 × path 1 is unknown"
    assert "dropped" not in shown
    assert shown["error"].endswith("deliver: batch 7: away")


def test_what_was_set_aside_and_dropped_is_told_with_the_reasons(tmp_path, now):
    spool = Spool(tmp_path / "spool.sqlite3", max_bytes=20_000)
    spool.put([result(label) for label in range(9)])
    batch = spool.next_batch(max_results=9, max_bytes=10**6, now=now, agent_version="0.1.0")
    reasons = ["a", "b", "c", "b", "d", "e", "f", "b", "g"]
    spool.acknowledge(1, [Refusal(sequence=n, reason=why) for n, why in enumerate(reasons, batch.results[0].sequence)])
    spool.put([result(1, "x" * 15_000), result(2, "x" * 15_000)])
    spool.close()

    shown = told(tmp_path, now)

    assert shown["quarantined"] == "3 × b; 1 × a; 1 × c; 1 × d; 1 × e; 2 for other reasons"
    assert shown["dropped"] == "1 ping (too_many)"


def test_a_running_slot_is_named_by_its_kind(agent, now):
    spool = Spool(agent / "spool.sqlite3")
    times = {"starts_at": now, "ends_at": now + timedelta(seconds=60), "path_id": 1, "test": "files", "role": "client"}
    spec = DiskToDiskSpec(address="192.0.2.2", source="192.0.2.1", duration_s=10, file_bytes=10**6, one_time_key="k")
    spool.claim_slot(DiskToDiskSlot(slot_id=5, spec=spec, **times), now)
    spool.claim_slot(ThroughputSlot(slot_id=6, spec=ThroughputSpec(address="192.0.2.2"), **times), now)
    spool.close()

    assert told(agent, now)["running"] == "ping pinger for 7 s, disk-to-disk slot 5, throughput slot 6"


def test_programs_get_the_same_as_json_and_the_exit_status(agent, capsys):
    assert main(["site", "status", "--data", str(agent), "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["works"] is True
    assert (shown["plan"], shown["spool"]["queued"], shown["process_id"]) == ("3f2a", 2, os.getpid())
    assert shown["state"]["health"]["lost_ticks"] == 3


def test_a_worker_that_is_silent_does_not_work(agent, now):
    status = read_status(agent, now + timedelta(seconds=120))

    assert not status.works
    assert "does not respond" in lines(status, now)[0]
    assert lines(status, now)[2] == "running     nothing"


def test_without_an_agent_the_spool_is_told_all_the_same(agent, now, tmp_path):
    (tmp_path / "agent.lock").unlink()

    shown = told(agent, now)

    assert "not running" in shown["agent"]
    assert shown["queued"].startswith("2 results ")
    assert lacks(shown["queued"], "backlog", " 1 quarantined") == []


def test_an_empty_folder_is_told_and_nothing_is_written_into_it(tmp_path, capsys):
    assert main(["site", "--data", str(tmp_path), "status"]) == 1

    assert "none yet" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_read_is_an_error_with_its_name(tmp_path, capsys):
    (tmp_path / "spool.sqlite3").write_text("no database, but long enough to be looked at as one")

    assert main(["site", "status", "--data", str(tmp_path)]) == 1

    assert lacks(capsys.readouterr().err, f" {tmp_path}/spool.sqlite3:", "not a database") == []


def test_an_agent_that_the_centre_refuses_says_so_and_what_to_do(agent, now, capsys):
    state = read_status(agent, now).state
    said = "409 Conflict: another agent works for cern; stop one of the two"
    write_state(agent / "state.json", msgspec.structs.replace(state, refusal=DatedMessage(at=now, message=said)))

    shown = told(agent, now)

    assert shown["agent"].startswith("measures (process")
    assert lacks(shown["agent"], "https://centre.example refuses", "results", "stay in the backlog") == []
    assert shown["running"] == "ping pinger for 7 s"
    assert shown["refused"].endswith(said)
    assert main(["site", "status", "--data", str(agent)]) == 1
    assert said in capsys.readouterr().out
