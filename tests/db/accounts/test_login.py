"""The login's rate limits in a real Redis: guessing is stopped for any claimed addresses, and the owner can log in."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from monitor.accounts import rate_limits

pytestmark = pytest.mark.django_db
PASSWORD = "long and winding"
LOOPBACK = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}


@pytest.fixture(autouse=True)
def counted(settings, redis_url, monkeypatch):
    settings.REDIS_URL = redis_url
    # A hundredth of the rate, so that no attempt is refilled during the test.
    for name in ("LOGIN", "LOGIN_OF_ACCOUNT_FROM_ADDRESS", "LOGIN_OF_DEVICE", "LOGIN_OF_ACCOUNT"):
        rate = getattr(rate_limits, name)
        monkeypatch.setattr(rate_limits, name, rate_limits.Rate(per_s=rate.per_s / 100, most=rate.most))


@pytest.fixture
def name(request):
    """The name of an account used by this test only."""
    name = f"ada-{abs(hash(request.node.name))}"
    User.objects.create_user(name, password=PASSWORD)
    return name


def log_in(client, name, password, address="127.0.0.1", **headers):
    return client.post(
        "/login/", {"username": name, "password": password}, REMOTE_ADDR=address, HTTP_HOST="localhost", **headers
    )


def test_forged_forwarding_headers_give_no_more_attempts(client, name):
    answers = [
        log_in(client, name, "wrong", "127.0.0.9", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}").status_code
        for number in range(15)
    ]

    assert answers == [200] * 10 + [429] * 5


def test_an_account_has_limited_attempts_from_all_addresses(client, settings, name):
    """With a named proxy, each client has an address; a client with many addresses still has few attempts."""
    settings.TRUSTED_PROXIES = ["127.0.0.1"]

    answers = [
        log_in(client, name, "wrong", HTTP_X_FORWARDED_FOR=f"203.0.113.{number}").status_code for number in range(40)
    ]

    assert answers == [200] * 30 + [429] * 10
    assert log_in(client, f" {name} ", PASSWORD, HTTP_X_FORWARDED_FOR="203.0.113.99").status_code == 429, (
        "in any spelling"
    )
    assert log_in(client, "somebody-else", "wrong", HTTP_X_FORWARDED_FOR="203.0.113.98").status_code == 200


def test_the_owner_can_log_in_from_a_known_browser_under_attack(name):
    owner, attacker = Client(), Client()
    assert log_in(owner, name, PASSWORD, "192.0.2.50").status_code == 302
    owner.post("/logout/", REMOTE_ADDR="192.0.2.50", HTTP_HOST="localhost")
    for number in range(40):
        log_in(attacker, name, "wrong", f"192.0.2.{100 + number}")
    assert log_in(attacker, name, PASSWORD, "192.0.2.99").status_code == 429

    assert log_in(owner, name, PASSWORD, "192.0.2.51").status_code == 302


def test_a_browser_cookie_is_for_its_account_and_expires(client, name):
    User.objects.create_user(f"{name}-other", password=PASSWORD)
    assert log_in(client, f"{name}-other", PASSWORD, "192.0.2.50").status_code == 302
    cookie = client.cookies["soundings_device"]
    client.logout()
    client.cookies["soundings_device"] = cookie.value
    for number in range(30):
        log_in(Client(), name, "wrong", f"192.0.2.{100 + number}")

    of_another = log_in(client, name, PASSWORD, "192.0.2.51").status_code
    own = [log_in(client, f"{name}-other", "wrong", f"192.0.2.{60 + number}").status_code for number in range(15)]

    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert of_another == 429
    assert own == [200] * 10 + [429] * 5
