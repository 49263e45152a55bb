"""Every query of the dashboards and of the alert rules, on the rows in `tests.db.dashboard_rows`: it returns some, and
reads no larger tables than it needs as the period grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests.db.dashboard_rows import SINCE, UNTIL, make_rows, variables
from tests.db.grafana import Query, queries, run, tables_read
from tests.db.mesh_of_three import MeshOfThree
from tests.db.module_rows import module_rows

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def mesh(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[MeshOfThree]:
    """With every kind of row that a dashboard queries; the tests only read."""
    with module_rows(django_db_blocker):
        yield make_rows()


WITHOUT_ROWS = {
    "paths: Packet loss (% of packets sent)/B",  # each hour has loss
    # A period of two hours has the figures of its bursts.
    *(f"{name}: @Summaries behind" for name in ("alerts", "mesh", "paths", "site", "system", "throughput")),
    "throughput: Use of links (bit/s)/B",  # weeks end at midnight
}


@pytest.mark.parametrize("query", queries(), ids=str)
def test_every_query_returns_rows_on_this_mesh(query: Query, mesh: MeshOfThree) -> None:
    assert bool(run(query.sql, variables(mesh), SINCE, UNTIL)) == (str(query) not in WITHOUT_ROWS)


@pytest.mark.parametrize("query", queries(), ids=str)
def test_a_query_reads_only_the_summaries_of_its_period(query: Query, mesh: MeshOfThree) -> None:
    """Many paths by day beyond two days, and by month beyond 92; a single path by day beyond 83, by month beyond 1999;
    never a raw burst, and no other summaries."""
    for days in (2.5, 30, 120, 3000):
        pooled = "day" if days <= 92 else "month"
        single = "hour" if days <= 83 else "day" if days <= 1999 else "month"
        tier = pooled if re.search(r"pooled_tier|_between\(", query.sql) else single

        # Coverage of the day or month that runs is counted from smaller summaries.
        tiers = ["hour", "day", "month"] if re.search(r"_(coverage|in_whole_hours)\(", query.sql) else [tier]
        tiers = tiers[: tiers.index(tier) + 1]

        read = tables_read(query.sql, variables(mesh), UNTIL - timedelta(days=days), UNTIL)

        summaries = {
            table for table in read if table.startswith(("burst_", "throughput_")) and table != "throughput_test"
        }
        assert "burst" not in read
        assert summaries <= {f"{kind}_{tier}" for tier in tiers for kind in ("burst", "throughput")}, days
        assert bool(summaries) == bool(re.search(r"reporting\.(ping|throughput|site_coverage)(_between)?\b", query.sql))
