"""A request's client address: forwarding headers of our own proxies are trusted, those that anybody can write are
not."""

import uuid

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from monitor import environment
from monitor.accounts import rate_limits
from monitor.accounts.callers import client_address, client_network
from monitor.accounts.models import token_digest

OURS = ["127.0.0.1", "::1", "10.1.0.0/16"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.7", None, "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),  # not our proxy: anybody can write this header
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("::ffff:127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("", "198.51.100.1", "198.51.100.1"),  # a Unix socket
        ("", None, ""),
        ("127.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),  # preceded by the client's own claim
        ("127.0.0.1", "203.0.113.9, 198.51.100.1, 10.1.2.3", "198.51.100.1"),
        ("127.0.0.1", "10.1.2.3", "10.1.2.3"),  # requested by our own proxy itself
        ("127.0.0.1", "2001:db8::7", "2001:db8::7"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1, ", "127.0.0.1"),
        ("127.0.0.1", "<script>, 198.51.100.1", "198.51.100.1"),
    ],
)
def test_the_nearest_address_that_is_not_our_proxy_is_the_client(settings, peer, forwarded, address):
    settings.TRUSTED_PROXIES = OURS
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}

    assert client_address(RequestFactory(headers=headers).get("/", REMOTE_ADDR=peer)) == address


def test_an_invalid_network_is_refused_with_the_form(monkeypatch):
    monkeypatch.setenv("SOUNDINGS_TRUSTED_PROXIES", "10.1.0.0/16, proxy.example")

    with pytest.raises(ImproperlyConfigured, match=r"'proxy.example' .* write for example 192.0.2.7,10.1.0.0/16"):
        environment.trusted_proxies()


@pytest.mark.django_db
def test_behind_a_proxy_each_client_has_its_own_login_limit(client, settings, monkeypatch):
    settings.TRUSTED_PROXIES = OURS
    addresses = []
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate: addresses.append(key) or 0)
    form = {"username": uuid.uuid4().hex, "password": "wrong"}

    for forwarded in ("198.51.100.1", "198.51.100.2"):
        client.post("/login/", form, REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": forwarded})

    account = token_digest(form["username"])
    assert [key for key in addresses if key != f"login:{account}"] == [
        f"login:{prefix}{address}" for address in ("198.51.100.1", "198.51.100.2") for prefix in ("", f"{account}:")
    ]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_address_counts_as_its_network(address, network):
    assert client_network(RequestFactory().get("/", REMOTE_ADDR=address)) == network


def test_no_proxy_is_trusted_by_default(monkeypatch):
    monkeypatch.delenv("SOUNDINGS_TRUSTED_PROXIES", raising=False)

    assert environment.trusted_proxies() == []
