"""A database with the planted rows of the dashboards' tests, and the data source that reads it.

The server is the bundled PostgreSQL, or the TimescaleDB of `tests.timescale`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import django
from django.core.management import call_command

from dashboards.reader import ROLE
from tests.bench.archive import database
from tests.grafana.plugin import DataSource
from tests.grafana.provisioned import Period, data_source
from tests.timescale import serving


@contextmanager
def server(*, with_timescale: bool) -> Iterator[str]:
    """Run a database server for Django, which must not be set up yet; yields its name for the output."""
    if not with_timescale:
        with database() as name:
            yield name
        return
    with serving() as url:
        os.environ["SOUNDINGS_DATABASE_URL"] = url
        yield "TimescaleDB"


def plant() -> tuple[DataSource, Period]:
    """Migrate, plant the rows and create the role; returns the data source, and the period of most rows."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    django.setup()
    call_command("migrate", verbosity=0)

    from django.db import connection

    from tests.db.dashboard_rows import SINCE, UNTIL, make_rows

    password = secrets.token_hex(16)
    make_rows(password)
    parameters = connection.get_connection_params()
    connection.close()
    provisioned = data_source()
    assert provisioned["user"] == ROLE
    source = DataSource(
        uid=provisioned["uid"],
        type=provisioned["type"],
        url=str(parameters["host"]),
        user=provisioned["user"],
        password=password,
        json_data={**provisioned["jsonData"], "database": parameters["dbname"]},
    )
    return source, (SINCE, UNTIL)
