"""Statements for agents' requests are prepared on the server, once for each connection; Django's own are not."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection

from monitor.mesh.models import Site
from monitor.prepared import run_prepared, text_array

pytestmark = pytest.mark.django_db

COUNTED = "SELECT count(*) FROM site WHERE id < %(site_id)s::integer"


def _prepared(marker: str) -> list[tuple[str, int]]:
    """Statements that the server has prepared on this connection with this text in them, and how often each ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements WHERE statement LIKE %s",
            [f"%{marker}%"],
        )
        return cursor.fetchall()


def test_statement_is_prepared_once_and_run_again():
    for site_id in (1, 2, 3):
        run_prepared(COUNTED, {"site_id": site_id}).fetchone()

    assert _prepared("SELECT count(*) FROM site WHERE id <") == [
        ("SELECT count(*) FROM site WHERE id < $1::integer", 3)
    ]


def test_statements_of_django_are_not_prepared():
    run_prepared(COUNTED, {"site_id": 1}).fetchone()
    for _ in range(10):
        Site.objects.filter(title="nowhere").exists()

    assert _prepared("nowhere") == _prepared("title") == []


def test_binary_values_are_those_of_the_text_format():
    written = "2026-11-27T13:45:06.123456+00:00"
    sql = "SELECT ARRAY[NULL, %(at)s::timestamptz], %(number)s::bigint, ARRAY['10.0.0.1', NULL]"
    expected = ([None, datetime.fromisoformat(written)], 7, ["10.0.0.1", None])

    for is_binary in (False, True):
        row = run_prepared(sql, {"at": written, "number": 7}, is_binary=is_binary).fetchone()
        assert row == expected
        assert row[0][1].utcoffset() == timedelta(0)


def test_texts_come_back_from_their_array_as_they_were():
    texts = ["fe80::1%eth0", None, 'a "b", {c}', "\\d\\", "", "NULL"]

    assert run_prepared("SELECT %(texts)s::text[]", {"texts": text_array(texts)}).fetchone() == (texts,)
