"""What the unit tests share: a machine without addresses of its own, so that none of theirs is the machine's."""

import pytest


@pytest.fixture(autouse=True)
def no_own_addresses(monkeypatch):
    monkeypatch.setattr("probes.site.limits.is_own", lambda address, family: False)
