"""Deliveries of agents, broken at random: each is taken or refused with a sentence, and nothing is stored twice."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from monitor.accounts import rate_limits
from monitor.agents.models import issue_token
from monitor.archive.models import Burst, CapacityResult, DiskToDiskTest, RefusedResult, ThroughputTest, Trace
from tests.db.any_batch import as_json, as_message_pack, whole_batch
from tests.db.mesh_of_three import NOW, make_mesh
from tests.fuzz.cases import cases, mutated, odd

pytestmark = pytest.mark.timescale
TABLES = (Burst, ThroughputTest, DiskToDiskTest, CapacityResult, Trace, RefusedResult)
ENCODINGS = {"identity": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}
FORMATS = {"application/json": as_json, "application/msgpack": as_message_pack}


@pytest.fixture
def mesh(db):
    return make_mesh()


@pytest.fixture
def agent(mesh, client, monkeypatch):
    """A client whose errors are raised here, not answered with 500."""
    monkeypatch.setattr(rate_limits, "wait_s", lambda *_: 0.0)
    client.defaults |= {"HTTP_AUTHORIZATION": f"Bearer {issue_token(mesh.slac.pk, NOW)}"}
    return client


def stored():
    return [table.objects.count() for table in TABLES]


def broken(whole, chance):
    """A body that was broken as a tree, as packed bytes, as compressed bytes, or with headers of another body."""
    content_type, encoding = chance.choice(list(FORMATS)), chance.choice(list(ENCODINGS))
    where = chance.randrange(4)
    value = odd(whole, chance) if where == 0 else whole
    try:
        packed = FORMATS[content_type](value)
    except OverflowError:  # MessagePack has no integers of this size
        content_type, packed = "application/json", as_json(value)
    packed = ENCODINGS[encoding](mutated(packed, chance) if where == 1 else packed)
    if where == 2:
        packed = mutated(packed, chance)
    elif where == 3:
        content_type, encoding = chance.choice([*FORMATS, "text/plain", ""]), chance.choice([*ENCODINGS, "br", "\xe9"])
    return packed, {"content_type": content_type, "HTTP_CONTENT_ENCODING": encoding}


def test_a_broken_delivery_is_taken_or_refused(mesh, agent):
    whole = whole_batch(mesh)
    for label, chance in cases("batches"):
        body, headers = broken({**whole, "number": chance.randrange(1, 10**6)}, chance)

        answer = agent.post("/api/agent/results", data=body, **headers)

        status, said = answer.status_code, answer.json()
        assert status == 200 or (400 <= status < 500 and " " in said["error"]), (label, status, said)
        if status == 200:
            assert all(" " in refused["reason"] for refused in said["refused"]), (label, said)
            before = stored()
            again = agent.post("/api/agent/results", data=body, **headers)
            assert (again.status_code, stored()) == (200, before), label
