"""Two web servers behind haproxy: any of them takes any request, limits are common, and clients keep their address."""

import http.client
import http.cookiejar
import json
import os
import re
import signal
import time
import urllib.parse
import urllib.request

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.utils import timezone

from monitor.accounts.roles import Role, give_role
from monitor.agents.enrolment import WRONG_CODES
from monitor.agents.models import AgentToken, issue_token
from monitor.archive.models import ReceivedBatch
from probes.site.delivery.centre import Centre, CentreError
from probes.site.wire import Batch
from tests.db.mesh_of_three import make_mesh
from tests.e2e.centre import listening, web_server
from tests.haproxy import haproxy

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "long and winding"
CLIENT = "127.0.0.5"
ATTEMPTS = 10


@pytest.fixture(scope="module")
def fronts(tmp_path_factory, django_db_setup, django_db_blocker, redis_url):
    """Ports of two web servers, each with a data folder of its own, and of haproxy."""
    folder = tmp_path_factory.mktemp("fronts")
    variables = {
        "SOUNDINGS_SECRET_KEY": "the same at each front",
        "SOUNDINGS_TRUSTED_PROXIES": "127.0.0.1",
        "SOUNDINGS_REDIS_URL": redis_url,
    }
    places = [folder / "first", folder / "second"]
    for place in places:
        place.mkdir()
    with (
        web_server(places[0], SOUNDINGS_DATA=str(places[0]), **variables) as first,
        web_server(places[1], SOUNDINGS_DATA=str(places[1]), **variables) as second,
        haproxy(folder, [first, second]) as port,
    ):
        yield first, second, port


class Browser:
    """Keeps its cookies, and goes to any front."""

    def __init__(self):
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, port, path, **form):
        headers = {"X-Forwarded-Proto": "https", "Referer": f"https://127.0.0.1:{port}/"}
        headers["Cookie"] = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.cookies)
        body = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
        with self.opener.open(request, timeout=60) as answer:
            return answer.read().decode()


def test_a_login_at_a_front_is_valid_at_the_other(fronts):
    first, second, _ = fronts
    make_mesh()
    # The web servers do not have the tests' quick hasher.
    ada = User.objects.create(username="ada", password=PBKDF2PasswordHasher().encode(PASSWORD, "salt", 1000))
    give_role(ada, Role.VIEWER)
    browser = Browser()
    form_token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', browser.get(first, "/login/"))[1]

    browser.get(second, "/login/", csrfmiddlewaretoken=form_token, username="ada", password=PASSWORD)

    assert "ada" in browser.get(first, "/settings/")


def test_wrong_codes_at_all_fronts_are_counted_by_client(fronts):
    make_mesh()
    _, _, port = fronts
    answers = []
    for number in range(WRONG_CODES + 1):
        connection = http.client.HTTPConnection("127.0.0.1", port, source_address=(CLIENT, 0), timeout=60)
        headers = {"Content-Type": "application/json", "X-Forwarded-For": f"198.51.100.{number}"}
        body = json.dumps({"code": "AAAA-BBBB-CCCC-DDDD-EEEE", "agent_version": "0.1.0"})
        connection.request("POST", "/api/agent/enrol", body, {**headers, "Soundings-Protocol": "1"})
        answer = connection.getresponse()
        answers.append((answer.status, answer.read().decode()))
        connection.close()

    assert [status for status, _ in answers] == [403] * WRONG_CODES + [429]
    assert CLIENT in answers[-1][1]


def deliver(centre, number):
    """As an agent does: again where the front was killed while it had the request (502), with the same number."""
    batch = Batch(spool="s", number=number, agent_version="0.1.0", sent_at=timezone.now(), results=())
    for _ in range(ATTEMPTS):
        try:
            return centre.deliver(batch)
        except CentreError as error:
            if error.status not in (502, 503):
                raise
            time.sleep(1)
    pytest.fail(f"batch {number} was not accepted in {ATTEMPTS} attempts")


def test_deliveries_go_on_when_a_front_is_killed(fronts, tmp_path):
    first, _, port = fronts
    mesh = make_mesh()
    (tmp_path / "token").write_text(issue_token(mesh.cern.pk, timezone.now()))
    centre = Centre(f"http://127.0.0.1:{port}", tmp_path / "token", identity=f"{'b' * 16}.1")

    for number in range(1, 11):
        if number == 4:
            for process in listening(first):
                os.kill(process, signal.SIGKILL)
        deliver(centre, number)

    assert ReceivedBatch.objects.count() == 10
    assert AgentToken.objects.get(site=mesh.cern).refused_at is None
