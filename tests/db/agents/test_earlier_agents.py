"""Deliveries of agents of earlier versions, in the bytes that they sent: all is stored, nothing refused."""

import base64
import json
from pathlib import Path

import msgspec
import pytest
from django.utils import timezone

from monitor.agents.models import issue_token
from monitor.archive.models import Burst, ReceivedBatch
from monitor.mesh import models
from probes.site.wire import PROTOCOL_HEADER, Receipt
from tests.db.mesh_of_three import make_mesh

RECORDED = sorted((Path(__file__).parents[2] / "fixtures" / "wire").glob("delivery_of_agent_*.json"))
PATH_ID = 1
"""Of all recorded results."""
COUNT = 4


@pytest.mark.django_db
@pytest.mark.parametrize("has_header", [True, False], ids=["protocol-1", "before-the-header"])
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_the_delivery_of_an_earlier_agent_is_stored_whole(client, file, has_header):
    mesh = make_mesh()
    models.Path.objects.filter(pk=mesh.slac_cern.pk).update(id=PATH_ID)
    recorded = json.loads(file.read_text())
    headers = {"Authorization": f"Bearer {issue_token(mesh.slac.pk, timezone.now())}", **recorded["headers"]}
    if not has_header:
        del headers[PROTOCOL_HEADER]
    content_type, body = headers.pop("Content-Type"), base64.b64decode(recorded["body"])

    answers = [client.post(recorded["path"], body, content_type, headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200], answers[0].content
    receipts = [msgspec.json.decode(answer.content, type=Receipt) for answer in answers]
    assert [(receipt.accepted, receipt.refused) for receipt in receipts] == [(COUNT, ())] * 2
    assert [(kept.accepted, kept.refused) for kept in ReceivedBatch.objects.all()] == [(COUNT, 0)]
    assert Burst.objects.get(outcome="measured").rtts_ms == [10.0, None, 12.5]


def test_an_earlier_agent_is_recorded():
    assert RECORDED != []
