"""The agent's Prometheus metrics: read over HTTP by prometheus_client's parser, from a data folder."""

import fcntl
import os
import re
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from probes.site import supervisor
from probes.site.health import Health, KernelClock
from probes.site.journal import DatedMessage, RunningCycle, WorkerState, write_state
from probes.site.metrics import KEPT_S, AgentCollector, parse_address, served
from probes.site.plan import PlanCache
from probes.site.spool.spool import Spool
from probes.site.wire import Plan, Refusal
from probes.supervision.supervise import StartError
from tests.facts import lacks
from tests.unit.site.test_spool import result

DOCS = Path(__file__).parents[3] / "docs" / "prometheus.md"
STARTED_AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLOCK = KernelClock(state="ok", is_synchronised=True, offset_s=0, frequency_ppm=0, max_error_s=1, estimated_error_s=1)
HEALTH = Health(clock_offset_s=-0.0021, clock_uncertainty_s=0.004, kernel_clock=CLOCK, lost_ticks=3)


@pytest.fixture
def agent(tmp_path):
    """The folder of a working agent: two results wait, another is quarantined, and the lock is held."""
    now = datetime.now(UTC)
    spool = Spool(tmp_path / "spool.sqlite3")
    spool.put([result(1), result(2), result(3)])
    batch = spool.next_batch(max_results=1, max_bytes=10**6, now=now, agent_version="0.1.0")
    spool.acknowledge(batch.number, [Refusal(sequence=batch.results[0].sequence, reason="path 1 is unknown")])
    PlanCache(tmp_path / "plan.json").store(Plan(version="3f2a", site="cern", mesh="test"))
    write_state(
        tmp_path / "state.json",
        WorkerState(
            written_at=now,
            started_at=STARTED_AT,
            agent_version="0.1.0",
            centre="https://centre.example",
            running=(RunningCycle(name="ping pinger", since=now),),
            last_accepted_at=STARTED_AT + timedelta(seconds=9),
            last_trouble=DatedMessage(at=STARTED_AT + timedelta(seconds=5), message="away"),
            health=HEALTH,
        ),
    )
    with (tmp_path / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield tmp_path
    spool.close()


def scrape(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_working_agent_is_exported_over_http(agent):
    with served("127.0.0.1:0", agent) as url:
        samples = scrape(url)

    cern = ("site", "cern")
    assert samples == {
        ("soundings_site_up", cern): 1,
        ("soundings_site_plan_info", cern, ("version", "3f2a")): 1,
        ("soundings_site_plan_targets", cern): 0,
        ("soundings_site_build_info", cern, ("version", "0.1.0")): 1,
        ("soundings_site_start_timestamp_seconds", cern): STARTED_AT.timestamp(),
        ("soundings_site_state_timestamp_seconds", cern): pytest.approx(datetime.now(UTC).timestamp(), abs=60),
        ("soundings_site_accepted_timestamp_seconds", cern): STARTED_AT.timestamp() + 9,
        ("soundings_site_trouble_timestamp_seconds", cern): STARTED_AT.timestamp() + 5,
        ("soundings_site_running_cycles", cern): 1,
        ("soundings_site_clock_offset_seconds", cern): -0.0021,
        ("soundings_site_clock_uncertainty_seconds", cern): 0.004,
        ("soundings_site_clock_synchronised", cern): 1,
        ("soundings_site_lost_cycles_total", cern): 3,
        ("soundings_site_bugs_total", cern): 0,
        ("soundings_site_spool_results", cern): 2,
        ("soundings_site_set_aside_results", cern): 1,
    }


def test_the_documentation_lists_exactly_the_exported_metrics(agent):
    with served("127.0.0.1:0", agent) as url, urllib.request.urlopen(url, timeout=10) as answer:
        types = set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE))

    assert set(re.findall(r"^\| `(soundings_site_\w+)", DOCS.read_text(), re.MULTILINE)) == types


def test_a_folder_without_an_agent_exports_only_up_0(tmp_path):
    with served("[::1]:0", tmp_path) as url:
        assert url.startswith("http://[::1]:")
        assert scrape(url) == {("soundings_site_up", ("site", "")): 0}


def test_an_unreadable_spool_is_not_up(tmp_path, capsys):
    (tmp_path / "spool.sqlite3").write_text("no database" * 100)

    with served("127.0.0.1:0", tmp_path) as url:
        samples = scrape(url)

    assert samples == {("soundings_site_up",): 0}
    assert "site: metrics: spool" in capsys.readouterr().err


def test_the_files_are_read_again_only_after_a_few_seconds(agent):
    seconds = [100.0]
    collector = AgentCollector(agent, clock=lambda: seconds[0])

    def spooled_results():
        return next(
            family.samples[0].value for family in collector.collect() if family.name == "soundings_site_spool_results"
        )

    assert spooled_results() == 2
    spool = Spool(agent / "spool.sqlite3")
    spool.put([result(4)])
    spool.close()
    assert spooled_results() == 2
    seconds[0] += KEPT_S + 0.1
    assert spooled_results() == 3


@pytest.mark.parametrize(("text", "expected"), [("127.0.0.1:9375", ("127.0.0.1", 9375)), ("[::1]:9375", ("::1", 9375))])
def test_an_address_and_port_are_parsed(text, expected):
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "9375", ":9375", "127.0.0.1", "127.0.0.1:x", "::1:9375", "a:1/b", "a:99999"])
def test_an_invalid_address_and_port_is_reported_with_the_form(text):
    with pytest.raises(StartError, match=r"write ADDRESS:PORT, as 127\.0\.0\.1:9375"):
        parse_address(text)


def test_a_port_in_use_is_reported_and_the_agent_does_not_start(agent, tmp_path_factory, capsys, monkeypatch):
    data = tmp_path_factory.mktemp("other")
    monkeypatch.setattr(supervisor.signal, "signal", lambda *_: None)

    with served("127.0.0.1:0", agent) as url:
        port = url.split(":")[2].split("/")[0]
        status = supervisor.main([str(data), str(data / "pulse"), "http://127.0.0.1:1", f"127.0.0.1:{port}"])

    assert status == 1
    assert lacks(capsys.readouterr().err, f"--metrics 127.0.0.1:{port}:", "Address already in use", "another") == []
