"""Many agents reconnect at once after an outage: the centre stays up, drains all queues, and its memory does not grow
with them. `python -m tests.bench faults` does so with ten times as many agents and a hundred times as many results."""

from __future__ import annotations

import subprocess

import pytest
from django.db import connection

from monitor.archive.models import Burst, ReceivedBatch
from monitor.stack import broker, serving
from tests.crowd import drain, make_crowd
from tests.e2e.centre import largest_bytes, listening, web_server
from tests.e2e.stack import wait_for

AGENTS, RESULTS, PATHS = 20, 1000, 20
LARGEST_BYTES = 400e6
"""Memory of a web process; half of it is Python, Django and NumPy before the first request."""


@pytest.fixture
def redis_url(tmp_path):
    path = tmp_path / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    wait_for(lambda: broker.answers(path), 30, "Redis answers")
    yield f"redis+socket://{path}"
    process.terminate()
    process.wait(timeout=10)


@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
def test_a_centre_drains_many_agents_and_stays_up_and_small(tmp_path, redis_url, monkeypatch, capsys):
    monkeypatch.setattr("probes.site.delivery.deliver.SPREAD_S", 5.0)  # more simultaneous than agents ever are
    spools = make_crowd(tmp_path, AGENTS, RESULTS, paths=PATHS)
    connection.close()

    with web_server(
        tmp_path, SOUNDINGS_REDIS_URL=redis_url, SOUNDINGS_LOCAL_READ="1", SOUNDINGS_ALLOW_PLAIN_HTTP="1"
    ) as port:
        before = wait_for(lambda: len(all_of := listening(port)) == 1 + serving.workers and all_of, 30, "all serve")
        drained = drain(f"http://127.0.0.1:{port}", spools, 200)
        peak_bytes = largest_bytes(port)
        assert listening(port) == before

    spooled, stored = AGENTS * RESULTS, Burst.objects.count()
    accepted = sum(ReceivedBatch.objects.values_list("accepted", flat=True))
    with capsys.disabled():
        print(
            f"\nledger: spooled {spooled} = accepted {accepted} + refused {len(drained.refused)}; stored {stored}; "
            f"{drained.took_s:.0f} s, answers {dict(drained.answers)}, largest web process {peak_bytes / 1e6:.0f} MB"
        )
    assert (accepted, stored, drained.refused) == (spooled, spooled, [])
    assert set(drained.answers) <= {200, 503}
    assert drained.pages_s
    assert peak_bytes < LARGEST_BYTES
