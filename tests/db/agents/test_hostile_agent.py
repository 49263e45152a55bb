"""An agent, or anybody with its token, that delivers markup in every text: no page executes any of it."""

import msgspec
import pytest
from django.contrib.auth.models import Group, User

from monitor.agents import health
from monitor.archive.ingest.arrivals import JSON, read
from monitor.archive.ingest.store_batch import receive
from monitor.archive.models import RefusedResult
from tests.db.agents.test_agent_health import HEALTH
from tests.db.archive.test_capacity_results import cannot_tell
from tests.db.archive.test_capacity_results import delivered as delivered_capacity
from tests.db.mesh_of_three import batch, burst, delivered, throughput
from tests.db.pages_mesh import MINUTE, NOW
from tests.db.web.test_hostile_requests import ADDRESSES, LOCAL, filled

pytestmark = pytest.mark.django_db
MARK = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\""
RAW = ("<script>alert", "<img src=x")


def leaves(value, at=()):
    """The positions of texts in decoded JSON."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*at, key))


def marked(value, at):
    """The same value with the mark at a position."""
    if not at:
        return MARK
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = marked(copy[at[0]], at[1:])
    return copy


def arrive(site, document):
    """Deliver as from the network, including health."""
    arrival = read(msgspec.json.encode(document), JSON)
    receipt = receive(site.pk, arrival, NOW)
    health.record(site.pk, arrival, NOW)
    return receipt


def test_no_text_of_an_agent_is_markup_on_a_page(client, paths, at_noon):
    path = paths["slac", "cern"]
    site, at = path.source.site, NOW - 5 * MINUTE
    results = [
        delivered(path, burst(1.5, None, at=at)),
        delivered(path, burst(at=at)),
        delivered(path, throughput(1e9, at=at)),
        delivered(path, throughput(at=at, congestion_control="cubic", tool="iperf3")),
        delivered_capacity(path, cannot_tell(at=at)),
    ]
    number = accepted = 0
    for result in results:
        document = msgspec.to_builtins(batch(result, health=HEALTH))
        for place in [(), *leaves(document["results"][0])]:
            number += 1
            entry = document["results"][0] if place == () else marked(document["results"][0], place)
            receipt = arrive(site, {**document, "number": number, "results": [{**entry, "sequence": number}]})
            accepted += receipt.accepted
    document = msgspec.to_builtins(batch(health=HEALTH))
    for place in [*((("health", *inner)) for inner in leaves(document["health"])), ("agent_version",)]:
        number += 1
        arrive(site, {**marked(document, place), "number": number})
    user = User.objects.create_user("somebody")
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)

    there = {"path_id": path.pk, "name": site.name, "token": "none", "version": "1"}
    pages = [client.get(filled(route, there), **LOCAL) for route in ADDRESSES]

    assert (accepted > len(results), RefusedResult.objects.exists()) == (True, True)
    html = [page.content.decode() for page in pages if page.headers["Content-Type"].startswith("text/html")]
    assert any("alert(1)" in page for page in html), "the texts are shown"
    assert [raw for page in html for raw in RAW if raw in page] == []
