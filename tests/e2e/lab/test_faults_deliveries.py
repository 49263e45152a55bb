"""Failing deliveries: an acknowledgement lost after the commit, a batch truncated in transfer, and two agents with the
same site's token. In all cases each result is stored once."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.e2e import faults
from tests.e2e.meddler import Fault, meddling
from tests.e2e.stack import TOP, wait_for

PROBES = [sys.executable, "-m", "probes"]


@pytest.fixture
def way(lab):
    with meddling(lab.data) as way:
        yield way


@pytest.mark.timeout(300)
def test_a_batch_with_a_lost_acknowledgement_is_stored_once(lab, way, capsys):
    way.arm(Fault.ANSWER_LOST)

    met, *after = wait_for(
        lambda: len(deliveries := way.deliveries(Fault.ANSWER_LOST)) > 1 and deliveries, 90, "the batch comes again"
    )

    assert met.status == 200
    again = after[0]
    assert (again.number, again.results, again.status) == (met.number, met.results, 200)
    noted = "SELECT accepted FROM received_batch WHERE spool = %s AND number = %s"
    assert faults.rows(lab, noted, met.spool, met.number) == [(met.results,)]
    faults.balanced(lab, 120, capsys)


@pytest.mark.timeout(300)
def test_a_truncated_batch_is_halved_and_stored_once(lab, way, capsys):
    way.arm(Fault.CUT)

    def all_there():
        met, *after = way.deliveries(Fault.CUT) or [None]
        return met is not None and sum(batch.results for batch in after) >= met.results and [met, *after]

    met, *after = wait_for(all_there, 90, "all of the batch comes again")

    assert met.status == 408
    assert met.results > 1
    assert (after[0].number, after[0].results, after[0].status) == (met.number, met.results // 2, 200)
    assert [batch.number for batch in after] == list(range(met.number, met.number + len(after)))
    faults.balanced(lab, 120, capsys)


def status(data):
    """Exit status and output of `site status`."""
    done = subprocess.run(
        [*PROBES, "site", "status", "--data", str(data)], cwd=TOP, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def sites_page(lab):
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.port}/sites/", timeout=30) as answer:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.read().decode()))


@pytest.fixture
def second(lab, tmp_path):
    """A second agent of oslo, at bern: with oslo's token and plan, in its own folder."""
    data = tmp_path / "second"
    data.mkdir()
    for name in ("token", "plan.json", "limits.toml"):
        shutil.copy(lab.data / "sites" / "oslo" / name, data / name)
    inside = [*PROBES, "lab", "exec", "--run-dir", str(lab.data / "lab"), "--end-with-lab", "bern"]
    command = [*inside, *PROBES, "site", "--centre", f"http://127.0.0.1:{lab.port}"]
    with (data / "out").open("wb") as output:
        process = subprocess.Popen(
            [*command, "--token-file", str(data / "token"), "--data", str(data)],
            cwd=TOP,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    yield data
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


@pytest.mark.timeout(300)
def test_a_second_agent_with_the_same_token_is_refused_and_shown(lab, second, capsys):
    spool = second / "spool.sqlite3"
    wait_for(lambda: faults.spool_counts(spool)[1] > 0, 90, "the second agent measures by its plan, and keeps it")
    code, status_output = wait_for(lambda: "\nrefused " in (answer := status(second))[1] and answer, 60, "it says why")

    assert code == 1
    assert "refuses its results; they stay in the backlog" in status_output
    assert "409 Conflict: another agent works for oslo since 20" in status_output
    assert "stop one of the two. If this one is to take its place, `manage.py site rotate oslo`" in status_output
    assert "a second agent shows this site" in sites_page(lab)
    ever, waiting = faults.spool_counts(spool)
    assert ever == waiting
    assert status(lab.data / "sites" / "oslo")[0] == 0
    faults.balanced(lab, 120, capsys)
