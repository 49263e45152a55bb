"""Pytest plugin: adds the toy kind to the registries, before the modules that are built from them are imported."""

from __future__ import annotations

import sys

import pytest

from probes import kinds
from tests.toy_kind.kind import KIND

assert "probes.site.wire" not in sys.modules, "the wire structs exist already"
kinds.KINDS[KIND.name] = KIND
kinds.CYCLE_KINDS += (KIND,)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Django is set up at this point, and nothing has been ingested."""
    from monitor.archive.ingest.kinds import KIND_OF_RESULT, STORED_KINDS, stored_rows
    from monitor.archive.kinds import RESULT_KINDS
    from monitor.archive.retention_bounds import BOUNDS
    from monitor.mesh.kinds import MESH_KINDS
    from tests.toy_kind.centre import BOUND, MESH_KIND, RESULT_KIND

    assert "monitor.api.throughput.results" not in sys.modules, "the addresses exist already"
    MESH_KINDS[KIND.name] = MESH_KIND
    BOUNDS[MESH_KIND.table] = BOUND
    RESULT_KINDS[KIND.name] = RESULT_KIND
    STORED_KINDS[KIND.name] = stored_rows(RESULT_KIND)
    KIND_OF_RESULT.update(dict.fromkeys(KIND.results, STORED_KINDS[KIND.name]))
