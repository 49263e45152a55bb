"""Captures of packets on the path page and in the API, the files that operators get and bring, and who may see them."""

import gzip
import struct
import time
from datetime import timedelta

import msgspec
import pytest
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.accounts.models import UserToken, token_digest
from monitor.web.pages.captures import view
from monitor.web.pages.captures.view import MOST_FILE_BYTES
from probes.transfers.spec import CapturedHeaders
from tests.captures import Record, captured, pcap_of, pcapng_file, records_of
from tests.db.capture_rows import deliver_captures
from tests.db.mesh_of_three import HOUR, make_mesh

pytestmark = pytest.mark.django_db
AT = HOUR.strftime("%Y-%m-%dT%H:%M:%SZ")
DAY = (HOUR + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%MZ")


@pytest.fixture
def mesh():
    return make_mesh()


def user(role):
    made = User.objects.create_user(role, password="long and winding")
    made.groups.add(Group.objects.get(name=role))
    return made


def logged_in(role, **options):
    client = Client(**options)
    client.force_login(user(role))
    return client


def page_of(client, path):
    return client.get(f"/paths/{path.pk}/?since=2026-03-14T11:00Z&until={DAY}&tab=tests&test={AT}").content.decode()


def test_the_page_says_in_which_direction_packets_were_lost(mesh):
    slot = deliver_captures(mesh, captured("lossy-sender", 1234), captured("lossy-receiver"))
    page = page_of(logged_in("operator"), mesh.slac_cern)

    assert "Lost from slac to cern: about 289 packets" in page
    assert "from cern to slac: none of 450 ACKs" in page
    assert "1,234 more were not kept" in page
    assert f"/captures/{slot.pk}-sender.pcap" in page
    assert page.count('id="sender-packets-spec"') == page.count('id="receiver-packets-spec"') == 1


def test_an_end_that_may_not_capture_says_so(mesh):
    deliver_captures(mesh, captured("lossy-sender"), CapturedHeaders(reason="limits.toml allows none"))
    page = page_of(logged_in("operator"), mesh.slac_cern)

    assert "receiver: no capture: limits.toml allows none" in page
    assert "captured-losses" not in page
    assert "receiver-packets-spec" not in page


def test_a_test_without_captures_shows_none(mesh):
    deliver_captures(mesh, msgspec.UNSET, msgspec.UNSET)

    assert "transfer-captures" not in page_of(logged_in("operator"), mesh.slac_cern)


def test_only_operators_get_the_packets(mesh):
    slot = deliver_captures(mesh, captured("stalled-sender"), captured("stalled-receiver"))
    file = f"/captures/{slot.pk}-sender.pcap"
    viewer, operator = logged_in("viewer"), logged_in("operator")
    api = f"/api/v1/paths/{mesh.slac_cern.pk}/throughput/{AT}/captures/sender"

    assert viewer.get(file).status_code == 403
    assert viewer.get(api).status_code == 403
    assert file not in page_of(viewer, mesh.slac_cern)
    assert "operators can download it" in page_of(viewer, mesh.slac_cern)
    assert Client(REMOTE_ADDR="192.0.2.7").get(file).status_code == 302
    assert Client(REMOTE_ADDR="192.0.2.7").get(api).status_code == 401
    assert viewer.get("/captures/").status_code == 403
    for answer in (operator.get(file), operator.get(api)):
        assert answer.status_code == 200
        assert answer.content == pcap_of("stalled-sender")
        assert answer.headers["Content-Type"] == "application/vnd.tcpdump.pcap"
    assert operator.get(f"/captures/{slot.pk}-nobody.pcap").status_code == 404
    assert operator.get("/captures/999999-sender.pcap").status_code == 404


@pytest.mark.parametrize(("may_operate", "status"), [(False, 403), (True, 200)])
def test_a_token_that_may_only_read_gets_no_packets(mesh, may_operate, status):
    deliver_captures(mesh, captured("stalled-sender"), captured("stalled-receiver"))
    UserToken.objects.create(
        user=user("operator"), name="script", digest=token_digest("secret"), created_at=HOUR, may_operate=may_operate
    )
    address = f"/api/v1/paths/{mesh.slac_cern.pk}/throughput/{AT}/captures"
    headers = {"Authorization": "Bearer secret"}

    assert Client().get(address, headers=headers).status_code == 200
    assert Client().get(f"{address}/receiver", headers=headers).status_code == status


def test_the_api_has_the_figures_of_both_ends(mesh):
    deliver_captures(mesh, captured("lossy-sender"), captured("lossy-receiver"))
    sender, receiver = logged_in("viewer").get(f"/api/v1/paths/{mesh.slac_cern.pk}/throughput/{AT}/captures").json()

    assert (sender["role"], receiver["role"]) == ("sender", "receiver")
    assert sender["losses"]["where"] == "data"
    assert sender["resent_packets"] == sender["figures"]["resent_packets"] > 0
    assert receiver["figures"]["out_of_order_packets"] > 0
    assert receiver["losses"] is None


def bring(client, data, name="it.pcap"):
    return client.post("/captures/", {"file": SimpleUploadedFile(name, data)})


def test_a_file_that_is_brought_is_evaluated(mesh):
    answer = bring(logged_in("operator"), pcap_of("stalled-sender"), "<b>.pcap")
    page = answer.content.decode()

    assert answer.status_code == 200
    assert "250,000 bytes" in page
    assert "the application sent nothing" in page
    assert "time-sequence-1" in page
    assert "<b>.pcap" not in page


def test_the_page_reads_gzip_and_names_the_packets_not_read(mesh):
    records = [Record(0, bytes(64), 64, 1), *records_of("stalled-sender")]
    page = bring(logged_in("operator"), gzip.compress(pcapng_file(records, (1, 189)))).content.decode()

    assert "250,000 bytes" in page
    assert "1 packet of link type 189 (USB)" in page


@pytest.mark.parametrize(
    ("data", "status", "says"),
    [
        (b"GIF89a", 422, "not a pcap"),
        (bytes(MOST_FILE_BYTES + 1), 413, "larger than"),
        (bytes(MOST_FILE_BYTES + 100_000), 413, "larger than"),
        (pcap_of("stalled-sender")[:24], 422, "no TCP packets"),
        (gzip.compress(pcap_of("stalled-sender")[:24] + bytes(70 << 20)), 422, "when unpacked"),
    ],
    ids=["other file", "large file", "large request", "empty", "bomb"],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(mesh, data, status, says):
    answer = bring(logged_in("operator"), data)

    assert answer.status_code == status
    assert says in answer.content.decode()


def test_without_a_file_or_a_token_against_forgery_nothing_is_read(mesh):
    operator = logged_in("operator")

    assert operator.get("/captures/").status_code == 200
    assert operator.post("/captures/", {}).status_code == 422
    operator.handler.enforce_csrf_checks = True
    assert bring(operator, pcap_of("stalled-sender")).status_code == 403


def raw_records(data):
    records, at = [], 24
    while at < len(data):
        length = 16 + struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at : at + length])
        at += length
    return records


def test_the_largest_hostile_file_takes_bounded_time(mesh, monkeypatch):
    """Packets that fill the file, all with SACK and holes. Time in proportion to the square of their number would be
    minutes here already."""
    monkeypatch.setattr(view, "MOST_PACKETS", 15_000)
    data = pcap_of("stalled-sender")
    with_sack = max(raw_records(data), key=lambda record: len(record) * (record[16 + 47] & 16 != 0))
    worst = bytearray(data[:24])
    for number in range((MOST_FILE_BYTES - 24) // len(with_sack)):
        record = bytearray(with_sack)
        struct.pack_into(">I", record, 16 + 14 + 20 + 4, number * 40_009 % 2**32)
        struct.pack_into(">I", record, 16 + 14 + 20 + 8, number * 70_001 % 2**32)
        worst += record
    begun = time.process_time()
    answer = bring(logged_in("operator"), bytes(worst))

    assert answer.status_code in (200, 422)
    assert time.process_time() - begun < 30


@given(drawn=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_never_fails_the_page(operator_client, drawn):
    whole = pcap_of("stalled-sender")[:6000]
    damaged = bytearray(whole)
    for place in drawn.draw(st.lists(st.integers(0, len(whole) - 1), max_size=30)):
        damaged[place] = drawn.draw(st.integers(0, 255))

    assert bring(operator_client, bytes(damaged)).status_code in (200, 422)


@pytest.fixture
def operator_client():
    return logged_in("operator")
