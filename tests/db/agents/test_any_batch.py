"""Any request to the agents' addresses is answered with 2xx or 4xx, and its valid results are stored."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.accounts import rate_limits
from monitor.agents.health import agent_reports
from monitor.agents.models import issue_token
from monitor.archive.ingest.failing_results import MOST_CULPRITS
from monitor.archive.models import Burst, CapacityResult, DiskToDiskTest, RefusedResult, ThroughputTest, Trace
from tests.db.any_batch import any_values, as_json, as_message_pack, changed, whole_batch
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh, throughput

pytestmark = pytest.mark.timescale

RESULTS = "/api/agent/results"
TYPES = {as_json: "application/json", as_message_pack: "application/msgpack"}
MANY = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def mesh(db):
    return make_mesh()


@pytest.fixture
def agent(mesh, client, monkeypatch):
    """A client whose errors are answered with 500 as in production."""
    monkeypatch.setattr(rate_limits, "wait_s", lambda *_: 0.0)
    client.defaults |= {"HTTP_AUTHORIZATION": f"Bearer {issue_token(mesh.slac.pk, NOW)}"}
    client.raise_request_exception = False
    return client


def post(agent, body, content_type):
    return agent.post(RESULTS, data=body, content_type=content_type)


def post_value(agent, value, encode):
    return post(agent, encode(value), TYPES[encode])


def stored():
    return [table.objects.count() for table in (Burst, ThroughputTest, DiskToDiskTest, CapacityResult, Trace)]


@pytest.mark.parametrize("encode", TYPES)
def test_a_whole_batch_is_stored(mesh, agent, encode):
    answer = post_value(agent, whole_batch(mesh), encode)

    assert (answer.status_code, answer.json()["refused"]) == (200, [])
    assert stored() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("encode", TYPES)
def test_no_change_of_a_batch_gives_5xx(mesh, agent, encode):
    whole = whole_batch(mesh)

    @MANY
    @given(changed(whole))
    def check(body):
        answer = post_value(agent, body, encode)
        assert answer.status_code < 500, answer.content[:300]
        if answer.status_code == 200 and isinstance(body.get("results"), list):
            receipt = answer.json()
            assert receipt["accepted"] + len(receipt["refused"]) <= len(body["results"])

    check()


@pytest.mark.parametrize("encode", TYPES)
def test_no_value_of_any_shape_gives_5xx(agent, encode):
    @MANY
    @given(any_values | st.fixed_dictionaries({"spool": any_values, "number": any_values, "results": any_values}))
    def check(body):
        assert post_value(agent, body, encode).status_code < 500

    check()


@pytest.mark.parametrize("content_type", TYPES.values())
def test_no_result_of_any_shape_affects_the_others(mesh, agent, content_type):
    whole = whole_batch(mesh)

    @MANY
    @given(any_values)
    def check(odd):
        body = {**whole, "results": [*whole["results"], odd]}
        encode = as_json if content_type == "application/json" else as_message_pack
        answer = post(agent, encode(body), content_type)
        assert answer.status_code == 200
        assert answer.json()["accepted"] == len(whole["results"])

    check()


@pytest.mark.parametrize("content_type", TYPES.values())
def test_no_bytes_give_5xx(agent, content_type):
    @MANY
    @given(st.binary(max_size=200))
    def check(body):
        assert post(agent, body, content_type).status_code < 500

    check()


@pytest.mark.parametrize("odd", [None, [], {}, 0, "", "x" * 20_000, [[[]]]], ids=repr)
def test_a_result_of_another_shape_is_refused_and_stored(mesh, agent, odd):
    whole = whole_batch(mesh)

    answer = post_value(agent, whole | {"results": [odd, *whole["results"]]}, as_json)

    assert (answer.status_code, answer.json()["accepted"]) == (200, 7)
    assert len(answer.json()["refused"]) == RefusedResult.objects.count() == 1


@pytest.mark.parametrize("text", [r"\ud800", r"\u0000", r"\udc00\ud800"])
def test_a_text_that_no_database_can_store_is_refused_alone(mesh, agent, text):
    body = as_json(whole_batch(mesh)).replace(b"as it was", text.encode())

    answer = post(agent, body, "application/json")

    assert answer.status_code in (200, 400)


def small_rtts(mesh, numbers):
    """Throughput tests, some with an RTT too large for its four-byte column."""
    at = NOW - timedelta(hours=2)
    for number in range(1, 101):
        run = throughput(1e8, at=at + timedelta(seconds=number), rtt_mean_ms=1e-50 if number in numbers else 10.0)
        yield delivered(mesh.slac_cern, run, number)


def test_only_a_result_that_the_database_cannot_store_is_refused(mesh, agent):
    sent_batch = batch(*small_rtts(mesh, {17, 64}), delivered(mesh.slac_cern, burst(1.0), 200))

    answer = post(agent, msgspec.json.encode(sent_batch), "application/json")

    assert (answer.status_code, answer.json()["accepted"]) == (200, 99)
    assert [refusal["sequence"] for refusal in answer.json()["refused"]] == [17, 64]
    assert "out of range for type real" in answer.json()["refused"][0]["reason"]
    assert stored() == [1, 98, 0, 0, 0]
    assert RefusedResult.objects.get(sequence=17).result["result"]["rtt_mean_ms"] == 1e-50
    assert post(agent, msgspec.json.encode(sent_batch), "application/json").content == answer.content


def test_many_results_that_cannot_be_stored_need_smaller_batches(mesh, agent):
    sent_batch = batch(*small_rtts(mesh, set(range(1, 101))))
    half = batch(*list(small_rtts(mesh, set(range(1, 101))))[:MOST_CULPRITS])

    answer = post(agent, msgspec.json.encode(sent_batch), "application/json")

    assert (answer.status_code, stored()) == (413, [0, 0, 0, 0, 0])
    assert len(post(agent, msgspec.json.encode(half), "application/json").json()["refused"]) == MOST_CULPRITS


def test_a_refused_sequence_is_not_stored_by_a_duplicate(mesh, agent):
    bad, good = (throughput(1e8, at=NOW - timedelta(hours=2), rtt_mean_ms=rtt_ms) for rtt_ms in (1e-50, 1.0))
    sent_batch = batch(delivered(mesh.slac_cern, bad, 7), delivered(mesh.slac_anl, good, 7))

    answer = post(agent, msgspec.json.encode(sent_batch), "application/json")

    assert (answer.json()["accepted"], [refusal["sequence"] for refusal in answer.json()["refused"]]) == (0, [7])
    assert stored() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(("sqlstate", "status"), [("22003", 200), ("23514", 200), ("54000", 200), ("42P01", 500)])
def test_only_errors_of_values_are_attributed_to_the_result(mesh, agent, sqlstate, status):
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.path_id = "
            f"{mesh.slac_anl.pk} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END $$"
        )
        cursor.execute("CREATE TRIGGER fail BEFORE INSERT ON burst FOR EACH ROW EXECUTE FUNCTION fail()")
    sent_batch = batch(delivered(mesh.slac_cern, burst(1.0), 1), delivered(mesh.slac_anl, burst(1.0), 2))

    answer = post(agent, msgspec.json.encode(sent_batch), "application/json")

    assert (answer.status_code, Burst.objects.count()) == (status, 1 if status == 200 else 0)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_clock_off_in_an_impossible_year_is_ignored(mesh, agent, year):
    whole = whole_batch(mesh)
    for moment in (f"{year:04d}-01-01T00:00:00+14:00", f"{year:04d}-12-31T23:59:59-14:00"):
        whole["health"]["clock_off"] |= {"since": moment, "until": moment}
        whole["number"] += 1

        assert post_value(agent, whole, as_json).status_code == 200
        assert [report.health.cpus for report in agent_reports(NOW)] == [4]


def test_a_health_that_cannot_be_stored_is_ignored(mesh, agent):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE agent_health ADD CONSTRAINT none CHECK (health IS NULL)")

    answer = post_value(agent, whole_batch(mesh), as_json)

    assert (answer.status_code, answer.json()["accepted"]) == (200, 7)
    assert [report.health for report in agent_reports(NOW)] == [None]


def test_a_content_length_of_thousands_of_digits_is_too_large(agent):
    answer = agent.post(RESULTS, data=b"{}", content_type="application/json", CONTENT_LENGTH="9" * 5000)

    assert answer.status_code == 413
