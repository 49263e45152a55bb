"""Apply paths, measurements and their schedule periods of a mesh.toml.

Rows are compared in the database, in temporary tables, since large meshes have a hundred thousand paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import F

from monitor.mesh.changes import Action, MeshChange
from monitor.mesh.document import expansion
from monitor.mesh.document.burst_sizes import burst_sizes
from monitor.mesh.document.entries import MeshDocument
from monitor.mesh.models import Host, Path, Test

_STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS wanted_measurement (
    number integer, source_id bigint, destination_id bigint, test_id bigint,
    every_s integer, pattern text, packet_bytes integer[]
) ON COMMIT DELETE ROWS
"""

_STAGE_DIFFERENT = """
CREATE TEMPORARY TABLE IF NOT EXISTS different_measurement (
    number integer, source_id bigint, destination_id bigint, test_id bigint,
    every_s integer, pattern text, packet_bytes integer[], measurement_id bigint
) ON COMMIT DELETE ROWS
"""
# Wanted measurements that are new or rescheduled, and, without a number, measurements no longer wanted; few rows where
# little changes.
_DIFFERENT = """
INSERT INTO different_measurement
SELECT
    wanted.number, source_id, destination_id, test_id, wanted.every_s, wanted.pattern, wanted.packet_bytes,
    present.measurement_id
FROM wanted_measurement AS wanted
FULL JOIN (
    SELECT
        measurement.id AS measurement_id, path.source_id, path.destination_id, measurement.test_id,
        period.every_s, period.pattern, period.packet_bytes
    FROM measurement
    JOIN path ON path.id = measurement.path_id
    LEFT JOIN measurement_period AS period ON period.measurement_id = measurement.id AND period.ended_at IS NULL
    WHERE measurement.retired_at IS NULL AND path.retired_at IS NULL
) AS present USING (source_id, destination_id, test_id)
WHERE (wanted.every_s, wanted.pattern, wanted.packet_bytes)
    IS DISTINCT FROM (present.every_s, present.pattern, present.packet_bytes)
"""

_WANTED = "(SELECT * FROM different_measurement WHERE number IS NOT NULL) AS wanted"
_UNWANTED = "(SELECT * FROM different_measurement WHERE number IS NULL) AS unwanted"
_WANTED_PATH = f"(SELECT source_id, destination_id, min(number) AS number FROM {_WANTED} GROUP BY 1, 2) AS wanted"
_OF_PATH = "path.source_id = wanted.source_id AND path.destination_id = wanted.destination_id"
_RETURNED_PATHS = f"""
WITH again AS (
    UPDATE path SET retired_at = NULL FROM {_WANTED_PATH}
    WHERE {_OF_PATH} AND path.retired_at IS NOT NULL
    RETURNING wanted.number, path.source_id, path.destination_id
)
SELECT source_id, destination_id FROM again ORDER BY number
"""
_NEW_PATHS = f"""
INSERT INTO path (source_id, destination_id, family)
SELECT wanted.source_id, wanted.destination_id, host.family
FROM {_WANTED_PATH} JOIN host ON host.id = wanted.source_id
WHERE NOT EXISTS (SELECT FROM path WHERE {_OF_PATH})
ORDER BY wanted.number
RETURNING source_id, destination_id
"""
_RETIRED_PATHS = f"""
WITH retired AS (
    UPDATE path SET retired_at = %(now)s
    FROM (SELECT DISTINCT source_id, destination_id FROM {_UNWANTED}) AS unwanted
    WHERE path.source_id = unwanted.source_id AND path.destination_id = unwanted.destination_id AND retired_at IS NULL
        AND NOT EXISTS (SELECT FROM wanted_measurement AS wanted WHERE {_OF_PATH})
    RETURNING path.id, path.source_id, path.destination_id
)
SELECT source_id, destination_id FROM retired ORDER BY id
"""

_OF_MEASUREMENT = f"path.id = measurement.path_id AND {_OF_PATH} AND measurement.test_id = wanted.test_id"
_RETURNED_MEASUREMENTS = f"""
WITH again AS (
    UPDATE measurement SET retired_at = NULL FROM {_WANTED}, path
    WHERE {_OF_MEASUREMENT} AND measurement.retired_at IS NOT NULL
    RETURNING wanted.*
)
SELECT source_id, destination_id, test_id FROM again ORDER BY number
"""
_NEW_MEASUREMENTS = f"""
WITH new AS (
    INSERT INTO measurement (path_id, test_id, started_at)
    SELECT path.id, wanted.test_id, %(now)s FROM {_WANTED} JOIN path ON {_OF_PATH}
    WHERE NOT EXISTS (
        SELECT FROM measurement WHERE measurement.path_id = path.id AND measurement.test_id = wanted.test_id
    )
    ORDER BY wanted.number
    RETURNING id, path_id, test_id
)
SELECT path.source_id, path.destination_id, new.test_id FROM new JOIN path ON path.id = new.path_id ORDER BY new.id
"""
_RETIRED_MEASUREMENTS = f"""
WITH retired AS (
    UPDATE measurement SET retired_at = %(now)s FROM {_UNWANTED} WHERE measurement.id = unwanted.measurement_id
    RETURNING id, unwanted.source_id, unwanted.destination_id, unwanted.test_id
)
SELECT source_id, destination_id, test_id FROM retired ORDER BY id
"""

_ENDED_PERIODS = """
UPDATE measurement_period AS period SET ended_at = %(now)s FROM different_measurement AS different
WHERE period.measurement_id = different.measurement_id AND ended_at IS NULL
"""
_NEW_PERIODS = f"""
INSERT INTO measurement_period (measurement_id, every_s, packet_bytes, pattern, started_at)
SELECT measurement.id, wanted.every_s, wanted.packet_bytes, wanted.pattern, %(now)s
FROM {_WANTED} JOIN path ON {_OF_PATH}
    JOIN measurement ON measurement.path_id = path.id AND measurement.test_id = wanted.test_id
WHERE NOT EXISTS (
    SELECT FROM measurement_period AS period WHERE period.measurement_id = measurement.id AND period.ended_at IS NULL
)
ORDER BY wanted.number
"""

_AGAIN = "in use again, with its history"


def apply_measurements(
    document: MeshDocument, host_ids: Mapping[str, int], test_ids: Mapping[str, int], now: datetime
) -> Iterator[MeshChange]:
    """Add, change and retire rows, and yield the changes. Paths exist where a measurement needs them."""
    hosts, tests = dict(Host.objects.values_list("pk", "name")), dict(Test.objects.values_list("pk", "name"))

    def path(source_id: int, destination_id: int) -> str:
        return f"{hosts[source_id]} → {hosts[destination_id]}"

    def measurement(source_id: int, destination_id: int, test_id: int) -> str:
        return f"{path(source_id, destination_id)}, {tests[test_id]}"

    with connection.cursor() as cursor:

        def changes(
            action: Action, kind: str, name: Callable[..., str], sql: str, detail: str = ""
        ) -> Iterator[MeshChange]:
            cursor.execute(sql, {"now": now})
            return (MeshChange(action, kind, name(*row), detail) for row in cursor.fetchall())

        _stage(cursor, document, host_ids, test_ids)
        yield from changes("added", "path", path, _RETURNED_PATHS, _AGAIN)
        yield from changes("added", "path", path, _NEW_PATHS)
        yield from changes("retired", "path", path, _RETIRED_PATHS)
        yield from _families()
        yield from changes("added", "measurement", measurement, _RETURNED_MEASUREMENTS, _AGAIN)
        yield from changes("added", "measurement", measurement, _NEW_MEASUREMENTS)
        yield from changes("retired", "measurement", measurement, _RETIRED_MEASUREMENTS)
        cursor.execute(_ENDED_PERIODS, {"now": now})
        cursor.execute(_NEW_PERIODS, {"now": now})


def _families() -> Iterator[MeshChange]:
    for path in Path.objects.in_use().exclude(family=F("source__family")).select_related("source", "destination"):
        family = path.source.family
        yield MeshChange("changed", "path", str(path), f"family {path.family} → {family}")
        Path.objects.filter(pk=path.pk).update(family=family)


def _stage(cursor: Any, document: MeshDocument, host_ids: Mapping[str, int], test_ids: Mapping[str, int]) -> None:
    tests = {test.name: test for test in document.tests}
    entries = expansion.measurements(document)

    @cache
    def test_and_schedule(name: str, packet_bytes: tuple[int, ...]) -> str:
        test = tests[name]
        sizes = ",".join(map(str, packet_bytes))
        return f"{test_ids[name]}\t{test.every_s}\t{getattr(test, 'pattern', 'burst')}\t{{{sizes}}}"

    cursor.execute(_STAGE)
    cursor.execute("TRUNCATE wanted_measurement")
    with cursor.copy("COPY wanted_measurement FROM STDIN") as copy:
        copy.write(
            "".join(
                f"{number}\t{host_ids[entry.source]}\t{host_ids[entry.destination]}\t"
                f"{test_and_schedule(entry.test, packet_bytes)}\n"
                for number, (entry, packet_bytes) in enumerate(burst_sizes(document, entries).items())
            )
        )
    cursor.execute("ANALYZE wanted_measurement")
    cursor.execute(_STAGE_DIFFERENT)
    cursor.execute("TRUNCATE different_measurement")
    cursor.execute(_DIFFERENT)
    cursor.execute("ANALYZE different_measurement")
