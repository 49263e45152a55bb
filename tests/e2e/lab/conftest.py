"""A single stack over the lab for all tests of this folder: each leaves it complete, with its ledger balanced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.e2e import faults
from tests.e2e.stack import RunningStack, running_stack


@pytest.fixture(scope="package")
def lab(namespaces_required: None) -> Iterator[RunningStack]:
    """The stack with measuring agents."""
    with running_stack("--lab", "three-sites") as stack:
        faults.wait_until_all_measure(stack)
        stack.measuring_since = datetime.now(UTC)
        yield stack
