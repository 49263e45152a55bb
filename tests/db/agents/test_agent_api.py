"""The agents' API over HTTP: plans, receipts, and a clear answer to everything that cannot be accepted."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import zstandard
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.utils import timezone

from monitor.agents import views
from monitor.agents.models import AgentToken, issue_token
from monitor.archive.ingest import store_batch
from monitor.archive.models import Burst, ReceivedBatch, RefusedResult
from monitor.archive.upkeep import trouble
from probes.site.health import Health
from probes.site.wire import Plan, Receipt
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh
from tests.facts import lacks

pytestmark = pytest.mark.django_db
PLAN = "/api/agent/plan"
RESULTS = "/api/agent/results"


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def token(mesh):
    return issue_token(mesh.slac.pk, NOW)


@pytest.fixture
def agent(client, token):
    """A client with a valid token, from another machine, without cookies."""
    client.defaults |= {"HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": "192.0.2.77"}
    client.handler.enforce_csrf_checks = True
    return client


def post(agent, body, **headers):
    return agent.post(RESULTS, data=body, content_type="application/json", headers=headers)


def a_batch(mesh):
    at = timezone.now() - timedelta(minutes=1)
    return batch(delivered(mesh.slac_cern, burst(1.5, None, at=at), 7), delivered(99999, burst(1.0, at=at), 8))


ENCODINGS = {
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "zstd of unknown size": lambda body: zstandard.ZstdCompressor(write_content_size=False).compress(body),
}
FORMATS = {"application/json": msgspec.json.encode, "application/msgpack": msgspec.msgpack.encode}


@pytest.mark.parametrize("content_type", FORMATS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_batch_is_stored_and_its_receipt_sent(mesh, agent, content_type, encoding):
    body = ENCODINGS[encoding](FORMATS[content_type](a_batch(mesh)))
    headers = {"Content-Encoding": encoding.partition(" ")[0]}

    response = agent.post(RESULTS, data=body, content_type=content_type, headers=headers)

    receipt = msgspec.json.decode(response.content, type=Receipt)
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert (receipt.number, receipt.accepted) == (1, 1)
    assert [(refusal.sequence, refusal.reason) for refusal in receipt.refused] == [(8, "path 99999 is unknown")]
    assert Burst.objects.get().rtts_ms == [1.5, None]
    assert ReceivedBatch.objects.get().site_id == mesh.slac.pk


def test_a_batch_sent_again_gets_the_same_receipt(mesh, agent):
    body = msgspec.json.encode(a_batch(mesh))

    first, second = post(agent, body), post(agent, body)

    assert first.content == second.content
    assert Burst.objects.count() == 1


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic c2xhYzpzbGFj"])
@pytest.mark.parametrize("address", [PLAN, RESULTS])
def test_without_a_valid_token_nothing_is_returned(mesh, client, address, authorization):
    method = client.get if address == PLAN else client.post

    response = method(address, headers={"Authorization": authorization})

    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert "manage.py site token" in response.json()["error"]


def test_a_revoked_token_is_refused(mesh, agent):
    call_command("site", "revoke", "slac", verbosity=0)

    assert agent.get(PLAN).status_code == 401


def test_the_token_check_is_a_single_query(mesh, agent, django_assert_num_queries):
    with django_assert_num_queries(1):
        agent.get(PLAN, headers={"Authorization": "Bearer wrong"})


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b" ", {}, 400, "not a batch"),
        (b'{"spool": "a"', {}, 400, "not a batch"),
        (b"\xff\xfe", {}, 400, "not a batch"),
        (b"plain", {"Content-Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b"{}", mtime=0)[:-9], {"Content-Encoding": "gzip"}, 400, "ends too early"),
        (gzip.compress(b"{}", mtime=0) * 2, {"Content-Encoding": "gzip"}, 400, "goes on after its end"),
        (b"plain", {"Content-Encoding": "zstd"}, 400, "not zstd"),
        (zstandard.compress(b'{"spool": "a"}' * 99)[:-9], {"Content-Encoding": "zstd"}, 400, "not a batch"),
        (b"{}", {"Content-Encoding": "br"}, 415, "send gzip, zstd or none"),
        (b"{}", {"Content-Length": ""}, 411, "Content-Length"),
    ],
)
def test_an_invalid_batch_is_answered_with_the_reason(mesh, agent, body, headers, status, words):
    response = post(agent, body, **headers)

    assert response.status_code == status
    assert words in response.json()["error"]


def test_a_result_of_a_wrong_type_is_refused_with_its_place(mesh, agent):
    body = json.loads(msgspec.json.encode(a_batch(mesh)))
    body["results"][1]["result"]["sent"] = "ten"
    body["results"] += [{"sequence": 9, "result": "?"}, "no result at all"]

    response = post(agent, json.dumps(body))

    assert response.status_code == 200
    assert response.json() == {
        "number": 1,
        "accepted": 1,
        "refused": [
            {"sequence": -10004, "reason": "Expected `object`, got `str`"},
            {"sequence": 8, "reason": "Expected `int`, got `str` - at `$.result.sent`"},
            {"sequence": 9, "reason": "Expected `object`, got `str` - at `$.result`"},
        ],
    }
    assert Burst.objects.count() == 1
    refused_rows = dict(RefusedResult.objects.values_list("sequence", "result"))
    assert refused_rows == {-10004: "no result at all", 8: body["results"][1], 9: body["results"][2]}
    assert post(agent, json.dumps(body)).content == response.content


def test_a_result_with_nan_is_refused_alone(mesh, agent):
    at = timezone.now() - timedelta(minutes=1)
    results = [delivered(mesh.slac_cern, burst(1.0, rtt_ms, at=at), n) for n, rtt_ms in enumerate((2.0, float("nan")))]

    response = agent.post(RESULTS, data=msgspec.msgpack.encode(batch(*results)), content_type="application/msgpack")

    assert response.json()["refused"] == [
        {"sequence": 1, "reason": "Expected `float` >= 0.0 - at `$.result.rtts_ms[1]`"}
    ]
    assert Burst.objects.get().rtts_ms == [1.0, 2.0]
    assert RefusedResult.objects.get().result["result"]["rtts_ms"] == [1.0, None]


def test_a_batch_with_impossible_fields_is_answered_400(mesh, agent):
    response = post(agent, msgspec.json.encode(batch(queued=-1)))

    assert response.status_code == 400
    assert response.json()["error"] == "not a batch: Expected `int` >= 0 - at `$.queued`"


def test_another_content_type_is_answered_415(mesh, agent):
    response = agent.post(RESULTS, data=b"{}", content_type="text/plain")

    assert response.status_code == 415
    assert "send application/json or application/msgpack" in response.json()["error"]


def test_an_oversized_body_is_answered_413(mesh, agent, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

    response = post(agent, b" " * 1001)

    assert response.status_code == 413
    assert "1001 bytes are more than 1000" in response.json()["error"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "zstd of unknown size"])
def test_a_small_body_that_expands_beyond_the_limit_is_413(mesh, agent, settings, encoding):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100_000
    bomb = ENCODINGS[encoding](b" " * 50_000_000)
    assert len(bomb) < 100_000

    response = post(agent, bomb, **{"Content-Encoding": encoding.partition(" ")[0]})

    assert response.status_code == 413
    assert lacks(response.json()["error"], "more than 100000 bytes", "decompressed") == []


def test_too_many_results_are_answered_413(mesh, agent):
    at = timezone.now()
    results = [delivered(mesh.slac_cern, burst(at=at), n) for n in range(10_001)]

    response = post(agent, msgspec.json.encode(batch(*results)))

    assert response.status_code == 413
    assert lacks(response.json()["error"], "more than 10000 results", "smaller batches") == []


def test_rows_that_need_too_much_memory_are_answered_413(mesh, agent, monkeypatch):
    monkeypatch.setattr(store_batch, "LARGEST_PACKED_BYTES", 200)
    at = timezone.now() - timedelta(minutes=1)

    response = post(agent, msgspec.json.encode(batch(delivered(mesh.slac_cern, burst(*[1.0] * 50, at=at)))))

    assert response.status_code == 413
    assert lacks(response.json()["error"], "rows", "more than 200 bytes", "smaller batches") == []
    assert not Burst.objects.exists()


@pytest.mark.parametrize("place", ["monitor.agents.health.receive", "monitor.agents.authentication.authenticate"])
def test_while_the_database_is_down_agents_are_told_to_retry(mesh, agent, monkeypatch, place):
    def away(*arguments):
        raise OperationalError("connection refused")

    monkeypatch.setattr(place, away)

    response = post(agent, msgspec.json.encode(a_batch(mesh)))

    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert response.json()["error"] == f"{trouble.TroubleKind.AWAY}; try again"


def fail_with(sqlstate):
    """Make the database refuse each burst with this SQLSTATE."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$"
        )
        cursor.execute("CREATE TRIGGER fail BEFORE INSERT ON burst FOR EACH ROW EXECUTE FUNCTION fail()")


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("53100", trouble.TroubleKind.DISK_FULL),
        ("53200", trouble.TroubleKind.NO_RESOURCES),
        ("57014", trouble.TroubleKind.SLOW),
        ("55P03", trouble.TroubleKind.SLOW),
        ("57P01", trouble.TroubleKind.AWAY),
    ],
)
def test_a_database_failure_is_answered_503_and_shown(mesh, agent, settings, tmp_path, sqlstate, kind):
    settings.DATA_DIR = tmp_path
    fail_with(sqlstate)
    before = datetime.now(UTC) - timedelta(seconds=1)  # file timestamps have a coarser resolution than our clock

    response = post(agent, msgspec.json.encode(a_batch(mesh)))

    (problem,) = trouble.current_trouble()
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert response.json()["error"] == f"{kind}; try again"
    assert not Burst.objects.exists()
    assert not ReceivedBatch.objects.exists()
    assert (problem.kind, before <= problem.at <= datetime.now(UTC)) == (kind, True)


def test_a_stored_batch_ends_the_problem(mesh, agent, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    response = post(agent, msgspec.json.encode(a_batch(mesh)))

    assert response.status_code == 200
    assert trouble.current_trouble() == []


def test_a_problem_that_cannot_be_recorded_is_logged(settings, tmp_path, caplog):
    settings.DATA_DIR = tmp_path / "file"
    settings.DATA_DIR.touch()

    trouble.record_trouble(trouble.TroubleKind.DISK_FULL)

    assert lacks(caplog.text, str(settings.DATA_DIR), "pages will not show", trouble.TroubleKind.DISK_FULL) == []


def test_no_batch_waits_in_memory_while_others_are_stored(mesh, agent, monkeypatch):
    monkeypatch.setattr(views, "LONGEST_WAIT_S", 0.01)
    taken = [views._storing.acquire(blocking=False) for _ in range(views.BATCHES_AT_ONCE)]
    try:
        response = post(agent, msgspec.json.encode(a_batch(mesh)))
    finally:
        for _ in taken:
            views._storing.release()

    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert lacks(response.json()["error"], "2 batches", "stored already", "try again") == []
    assert post(agent, msgspec.json.encode(a_batch(mesh))).status_code == 200


@pytest.mark.parametrize(("address", "method"), [(PLAN, "post"), (RESULTS, "get")])
def test_other_methods_are_not_allowed(mesh, agent, address, method):
    assert getattr(agent, method)(address).status_code == 405


def test_the_plan_is_sent_once_per_version(mesh, agent):
    first = agent.get(PLAN)
    plan = msgspec.json.decode(first.content, type=Plan)

    again = agent.get(PLAN, headers={"If-None-Match": first["ETag"]})
    other = agent.get(PLAN, headers={"If-None-Match": '"older"'})

    assert first.status_code == 200
    assert plan.site == "slac"
    assert first["ETag"] == f'"{plan.version}"'
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert other.status_code == 200


def test_the_plan_is_compressed_for_agents_that_ask_for_it(mesh, agent):
    mesh.slot(mesh.slac_cern, timezone.now() + timedelta(minutes=5))
    plain, packed = agent.get(PLAN), agent.get(PLAN, headers={"Accept-Encoding": "gzip"})

    assert not plain.has_header("Content-Encoding")
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert agent.get(PLAN, headers={"If-None-Match": packed["ETag"], "Accept-Encoding": "gzip"}).status_code == 304


def test_the_plan_has_the_iperf3_version_of_the_other_end(mesh, agent):
    mesh.slot(mesh.cern_slac, timezone.now() + timedelta(minutes=5))
    cern = {"Authorization": f"Bearer {issue_token(mesh.cern.pk, NOW)}"}
    before = agent.get(PLAN, headers=cern)

    post(agent, msgspec.json.encode(batch(health=Health(iperf3="3.22"))))

    plans = [msgspec.json.decode(answer.content, type=Plan) for answer in (before, agent.get(PLAN, headers=cern))]
    assert [slot.spec.peer_iperf3 for plan in plans for slot in plan.throughput] == [None, "3.22"]
    assert plans[0].version != plans[1].version


def test_an_etag_weakened_or_joined_by_a_proxy_still_matches(mesh, agent):
    etag = agent.get(PLAN)["ETag"]

    assert agent.get(PLAN, headers={"If-None-Match": f'"older", W/{etag}'}).status_code == 304


def test_a_token_is_printed_and_only_its_digest_is_stored(mesh, client, capsys):
    call_command("site", "token", "slac")

    token = capsys.readouterr().out.strip()
    assert client.get(PLAN, headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert token not in AgentToken.objects.get().digest


def test_a_token_file_is_private_and_kept_while_valid(mesh, client, tmp_path, capsys):
    out = tmp_path / "slac.token"
    out.write_text("an old token\n")
    out.chmod(0o644)

    call_command("site", "token", "slac", out=out)
    first = out.read_text()
    call_command("site", "token", "slac", out=out)

    assert out.stat().st_mode & 0o777 == 0o600
    assert client.get(PLAN, headers={"Authorization": f"Bearer {first.strip()}"}).status_code == 200
    assert out.read_text() == first
    assert AgentToken.objects.count() == 1
    written, unchanged = capsys.readouterr().out.splitlines()
    assert lacks(written, "slac: new token", str(out)) == []
    assert lacks(unchanged, "slac: kept", "valid token", str(out)) == []


def test_a_revoked_token_or_that_of_another_site_is_replaced(mesh, tmp_path):
    out = tmp_path / "token"
    call_command("site", "token", "cern", out=out, verbosity=0)
    of_cern = out.read_text()

    call_command("site", "token", "slac", out=out)
    of_slac = out.read_text()
    call_command("site", "revoke", "slac")
    call_command("site", "token", "slac", out=out)

    assert len({of_cern, of_slac, out.read_text()}) == 3


def test_a_file_that_cannot_be_written_leaves_no_token(mesh, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(CommandError, match=r"file/token: .*give a file"):
        call_command("site", "token", "slac", out=tmp_path / "file" / "token")

    assert not AgentToken.objects.exists()


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("cren", ('site "cren"', "not in the mesh", 'did you mean "cern"', "`manage.py mesh apply FILE`")),
        ("xyz", ('site "xyz"', "not in the mesh", "with an agent: cern, slac)", "`manage.py mesh apply FILE`")),
        ("anl", ('site "anl"', "no agent", "agent = true", "mesh.toml", "apply")),
    ],
)
def test_a_site_without_an_agent_gets_no_token(mesh, name, facts):
    with pytest.raises(CommandError) as error:
        call_command("site", "token", name)

    assert lacks(str(error.value), *facts) == []
