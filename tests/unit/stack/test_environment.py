"""Environment variables of the centre that are lists of names."""

import pytest

from monitor import environment

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        ("soundings.example.org", ["soundings.example.org", *LOOPBACK]),
        ("a.example, localhost", ["a.example", "localhost", "127.0.0.1", "[::1]"]),
        ("2001:db8::1, [2001:db8::2]", ["[2001:db8::1]", "[2001:db8::2]", *LOOPBACK]),
        (None, LOOPBACK),
        ("", []),  # reported by Django's deployment checks
    ],
)
def test_loopback_is_served_beside_the_allowed_hosts(monkeypatch, value, hosts):
    monkeypatch.delenv("SOUNDINGS_ALLOWED_HOSTS", raising=False)
    if value is not None:
        monkeypatch.setenv("SOUNDINGS_ALLOWED_HOSTS", value)

    assert environment.allowed_hosts() == hosts
