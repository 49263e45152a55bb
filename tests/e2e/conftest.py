"""One stack over the lab for all the fault tests: each leaves it whole, and its ledger balanced."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from tests.e2e import faults
from tests.e2e.stack import running_stack

_running = ExitStack()
_stacks = []


@pytest.fixture
def lab(namespaces_required):
    """The stack, its agents measuring."""
    if not _stacks:
        _stacks.append(_running.enter_context(running_stack("--lab", "three-sites")))
        faults.wait_until_all_measure(_stacks[0])
        _stacks[0].measuring_since = datetime.now(UTC)
    return _stacks[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """A scope of its own: from the first test that uses it to the last in a row, and no longer."""
    if _stacks and (nextitem is None or "lab" not in nextitem.fixturenames):
        _stacks.clear()
        _running.close()
