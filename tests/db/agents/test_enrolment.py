"""Enrolment of a site with a one-time code: codes that are wrong, used, expired, revoked, and redeemed concurrently."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.utils import timezone

from monitor.accounts.models import token_digest
from monitor.agents import enrolment
from monitor.agents.enrolment import LIFETIME, WRONG_CODES, CodeRefused, issue_code, redeem, withdraw_codes
from monitor.agents.models import AgentToken, EnrolmentCode, issue_token
from probes.site.wire import RECEIVED_HEADER, SENT_HEADER, Enrolment, EnrolmentRequest, Welcome
from tests.db.mesh_of_three import NOW, make_mesh
from tests.facts import lacks

pytestmark = pytest.mark.django_db
ENROL = "/api/agent/enrol"
PLAN = "/api/agent/plan"
PATIENCE_S = 60


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def site_client(client):
    """From another machine, without cookies or token."""
    client.defaults["REMOTE_ADDR"] = "192.0.2.77"
    client.handler.enforce_csrf_checks = True
    return client


@pytest.fixture
def code(mesh):
    return issue_code(mesh.cern.pk, timezone.now())


def show(client, code, version="0.1.0"):
    body = msgspec.json.encode(EnrolmentRequest(code=code, agent_version=version))
    return client.post(ENROL, data=body, content_type="application/json")


def token_holds(client, token):
    return client.get(PLAN, headers={"Authorization": f"Bearer {token}"}).status_code == 200


# --- codes


def test_a_code_gives_its_site_a_valid_token(mesh, site_client, code):
    response = show(site_client, code)

    enrolment_ = msgspec.json.decode(response.content, type=Enrolment)
    assert (response.status_code, enrolment_.site) == (200, "cern")
    assert response["Cache-Control"] == "private, no-store"
    assert token_holds(site_client, enrolment_.token)
    assert AgentToken.objects.get().digest == token_digest(enrolment_.token)


def test_neither_code_nor_token_is_stored(mesh, code):
    token = redeem(code, timezone.now()).token

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT row_to_json(c)::text FROM enrolment_code c UNION SELECT row_to_json(t)::text FROM agent_token t"
        )
        rows = " ".join(row for (row,) in cursor.fetchall())
    assert code not in rows
    assert code.replace("-", "") not in rows
    assert token not in rows


def test_a_code_is_accepted_in_lower_case_and_with_spaces(mesh, code):
    assert redeem(code.lower().replace("-", " "), timezone.now()).site == "cern"


def test_codes_are_long_random_and_readable(mesh):
    codes = [issue_code(mesh.cern.pk, NOW) for _ in range(50)]

    assert len(set(codes)) == 50
    assert all(re.fullmatch(r"([A-HJ-NP-Z2-9]{4}-){4}[A-HJ-NP-Z2-9]{4}", code) for code in codes)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda mesh, code: redeem(code, NOW), r"used at 2026-03-14 12:30:00\+00:00.*`manage.py site rotate cern`"),
        (
            lambda mesh, code: issue_code(mesh.cern.pk, NOW),
            r"valid until 2026-03-14 12:30:00\+00:00.*`manage.py site enrol cern`",
        ),
        (lambda mesh, code: withdraw_codes(mesh.cern.pk, NOW), r"valid until 2026-03-14 12:30:00"),
        (
            lambda mesh, code: type(mesh.cern).objects.filter(name="cern").update(retired_at=NOW),
            r"no longer has an agent",
        ),
        (
            lambda mesh, code: type(mesh.cern).objects.filter(name="cern").update(has_agent=False),
            r"no longer has an agent",
        ),
    ],
    ids=["used", "replaced", "withdrawn", "site retired", "site without agent"],
)
def test_an_invalid_code_gives_nothing_and_the_reason(mesh, spoil, reason):
    code = issue_code(mesh.cern.pk, NOW)
    spoil(mesh, code)
    tokens = AgentToken.objects.count()

    with pytest.raises(CodeRefused, match=reason):
        redeem(code, NOW + timedelta(seconds=1))

    assert AgentToken.objects.count() == tokens


def test_a_code_is_valid_until_it_expires(mesh):
    late, early = issue_code(mesh.cern.pk, NOW), issue_code(mesh.slac.pk, NOW)

    with pytest.raises(CodeRefused, match="valid until"):
        redeem(late, NOW + LIFETIME)
    assert redeem(early, NOW + LIFETIME - timedelta(seconds=1)).site == "slac"


def test_an_unknown_code_is_wrong(mesh, code):
    with pytest.raises(CodeRefused, match="unknown code"):
        redeem("AAAA-BBBB-CCCC-DDDD-EEEE", NOW)


def test_a_code_is_not_used_up_by_a_failure(mesh, code, monkeypatch):
    def fail(*_):
        raise OperationalError

    monkeypatch.setattr(enrolment, "issue_token", fail)
    with pytest.raises(OperationalError):
        redeem(code, timezone.now())
    monkeypatch.undo()

    assert redeem(code, timezone.now()).site == "cern"


def test_a_rotation_code_ends_only_its_own_sites_old_tokens(mesh, site_client):
    old, others = issue_token(mesh.cern.pk, NOW), issue_token(mesh.slac.pk, NOW)
    code = issue_code(mesh.cern.pk, timezone.now(), replaces_tokens=True)
    assert token_holds(site_client, old)

    token = redeem(code, timezone.now()).token

    assert [token_holds(site_client, some_token) for some_token in (old, others, token)] == [False, True, True]


@pytest.mark.django_db(transaction=True)
def test_a_code_redeemed_by_eight_at_once_gives_a_single_token():
    code = issue_code(make_mesh().cern.pk, timezone.now())
    barrier = threading.Barrier(8)

    def try_it():
        try:
            barrier.wait(PATIENCE_S)
            return redeem(code, timezone.now()).token
        except CodeRefused as refused:
            return str(refused)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = [future.result(PATIENCE_S) for future in [pool.submit(try_it) for _ in range(8)]]

    assert sum("was used at" in answer for answer in answers) == 7
    assert AgentToken.objects.count() == 1


# --- over HTTP


def test_anybody_can_read_the_versions_and_the_time(mesh, site_client):
    before = timezone.now().timestamp()

    response = site_client.get(ENROL)

    assert msgspec.json.decode(response.content, type=Welcome).oldest_agent_version == "0.1.0"
    received_s, sent_s = float(response[RECEIVED_HEADER]), float(response[SENT_HEADER])
    assert before - 1e-3 <= received_s <= sent_s <= timezone.now().timestamp() + 1e-3


@pytest.mark.parametrize("address", [PLAN, "/api/agent/results"])
def test_every_answer_to_an_agent_has_the_time(mesh, site_client, address):
    response = site_client.get(address)

    assert response.status_code in (401, 405)
    assert float(response[RECEIVED_HEADER]) <= float(response[SENT_HEADER])


@pytest.mark.parametrize("version", ["0.0.9", "", "unknown"])
def test_an_agent_that_is_too_old_keeps_its_code(mesh, site_client, code, version):
    response = show(site_client, code, version)

    assert response.status_code == 426
    assert "install 0.1.0 or later" in response.json()["error"]
    assert show(site_client, code).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 411),
        (b"{}", 400),
        (b'{"code": 7, "agent_version": "0.1.0"}', 400),
        (b"\xff", 400),
        (b"[" * 4000, 400),
        (b" " * 5000, 413),
    ],
)
def test_an_invalid_request_is_refused(mesh, site_client, body, status):
    response = site_client.post(ENROL, data=body, content_type="application/json")

    assert response.status_code == status
    assert response.json()["error"]


def test_after_many_wrong_codes_only_that_address_has_to_wait(mesh, site_client, code, settings, redis_url):
    settings.REDIS_URL = redis_url
    answers = [show(site_client, "AAAA-BBBB-CCCC-DDDD-EEEE").status_code for _ in range(WRONG_CODES)]
    assert answers == [403] * WRONG_CODES

    limited = show(site_client, code)
    site_client.defaults["REMOTE_ADDR"] = "192.0.2.78"

    assert (limited.status_code, limited["Retry-After"]) == (429, "60")
    assert show(site_client, code).status_code == 200


def test_right_codes_are_not_counted(mesh, site_client, settings, redis_url):
    settings.REDIS_URL = redis_url
    site_client.defaults["REMOTE_ADDR"] = "192.0.2.79"
    for _ in range(WRONG_CODES + 1):
        assert show(site_client, issue_code(mesh.cern.pk, timezone.now())).status_code == 200


def test_without_a_database_the_agent_is_told_to_retry(mesh, site_client, code, monkeypatch):
    def fail(*_):
        raise OperationalError("password authentication failed for user postgres")

    monkeypatch.setattr(enrolment, "redeem", fail)

    response = show(site_client, code)

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert "password" not in response.content.decode()


def test_an_error_page_shows_neither_code_nor_token(mesh, site_client, code, monkeypatch):
    def fail(_):
        raise ZeroDivisionError(code)

    monkeypatch.setattr(enrolment, "json_answer", fail)
    site_client.raise_request_exception = False

    response = show(site_client, code)

    assert response.status_code == 500
    assert code not in response.content.decode()
    assert code.replace("-", "") not in response.content.decode()


# --- commands


def printed(capsys, *arguments):
    call_command("site", *arguments)
    return capsys.readouterr()


def test_enrol_prints_a_single_command_only(mesh, capsys, settings):
    settings.PUBLIC_URL = "https://soundings.example.org"

    output = printed(capsys, "enrol", "cern")

    words = output.out.split()
    assert output.out.count("\n") == 1
    assert words[:6] == ["python", "-m", "probes", "site", "join", "https://soundings.example.org"]
    assert lacks(output.err, "at cern", "once", "valid", " 24 hours") == []
    assert output.err.count("\n") == 1
    assert redeem(words[6], timezone.now()).site == "cern"


HERE = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("public_url", "hosts", "arguments", "url"),
    [
        (HERE, ["localhost", "127.0.0.1", "[::1]"], [], HERE),
        (HERE, ["*", ".example.org"], [], HERE),
        (HERE, ["localhost", "a.example"], [], "https://a.example"),
        ("https://c.example:8443", ["a.example"], [], "https://c.example:8443"),
        ("https://c.example", ["a.example"], ["--url", "https://b.example:8443"], "https://b.example:8443"),
    ],
)
def test_the_command_names_the_centres_public_url(mesh, capsys, settings, public_url, hosts, arguments, url):
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = public_url, hosts

    output = printed(capsys, "enrol", "cern", *arguments)

    assert f" join {url} " in output.out
    assert ("SOUNDINGS_PUBLIC_URL" in output.err) == (url == HERE)


def test_the_code_is_valid_for_the_given_time(mesh, capsys):
    printed(capsys, "enrol", "cern", "--hours", "2")

    code = EnrolmentCode.objects.get()
    assert code.expires_at - code.created_at == timedelta(hours=2)
    for hours in ("0", "-1", "721"):
        with pytest.raises(CommandError, match="--hours"):
            call_command("site", "enrol", "cern", "--hours", hours)


def test_a_site_with_a_token_needs_a_rotation(mesh, capsys, site_client):
    old = issue_token(mesh.cern.pk, timezone.now())

    with pytest.raises(CommandError, match=r"`manage.py site rotate cern` replaces it"):
        call_command("site", "enrol", "cern")
    code = printed(capsys, "rotate", "cern").out.split()[-1]

    assert token_holds(site_client, old)
    assert token_holds(site_client, redeem(code, timezone.now()).token)
    assert not token_holds(site_client, old)


def test_revoking_also_ends_an_unused_code(mesh, capsys, site_client, code):
    token = issue_token(mesh.cern.pk, timezone.now())

    assert printed(capsys, "revoke", "cern").out == "cern: 1 token revoked\n"

    assert not token_holds(site_client, token)
    with pytest.raises(CodeRefused, match="valid until"):
        redeem(code, timezone.now())


@pytest.mark.parametrize("verb", ["enrol", "rotate"])
def test_an_unknown_site_gets_no_code(mesh, verb):
    with pytest.raises(CommandError, match="did you mean"):
        call_command("site", verb, "cren")

    assert not EnrolmentCode.objects.exists()
