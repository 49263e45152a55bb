"""The queries of the path dashboard, and the role that Grafana reads with. Other dashboards are in test_dashboard_mesh.

The rows are inserted here, the answers written by hand.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.utils import ProgrammingError

from dashboards.reader import ROLE, ReaderError, grant, grant_from_environment
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstHour, CapacityResult, ThroughputTest
from monitor.mesh import models as mesh
from monitor.mesh.models import Host, Measurement, Path, Site
from tests.db import grafana
from tests.db.grafana import about, expand, of_dashboard
from tests.postgres import superuser_url

pytestmark = pytest.mark.timescale

SINCE = datetime(2025, 3, 3, 10, 30, tzinfo=UTC)
UNTIL = datetime(2025, 3, 3, 14, 0, tzinfo=UTC)


def hour(number: int) -> datetime:
    return datetime(2025, 3, 3, number, tzinfo=UTC)


QUERIES = of_dashboard("paths")


def run(sql: str, variables: dict[str, str], since: datetime = SINCE, until: datetime = UNTIL) -> list[Any]:
    return grafana.run(sql, variables, since, until)


@pytest.fixture
def archive(db: None) -> dict[str, str]:
    """Two sites in use and a retired site, three paths, hours and tests; the variables that select the first path."""
    slac, cern, kek = (site(name) for name in ("slac", "cern", "kek"))
    Site.objects.filter(id=kek.id).update(retired_at=hour(1))
    hosts = {name: host(name, owner) for name, owner in (("slac", slac), ("cern", cern), ("kek", kek))}
    hosts |= {name: host(name, owner, family=6) for name, owner in (("slac6", slac), ("cern6", cern))}
    path, path6, back, old = (
        Path.objects.create(source=hosts[a], destination=hosts[b], family=hosts[a].family)
        for a, b in (("slac", "cern"), ("slac6", "cern6"), ("cern", "slac"), ("slac", "kek"))
    )
    Path.objects.filter(id=old.id).update(retired_at=hour(1))
    measure(path)
    burst_hours(path.id)
    for other in (path6, back):
        BurstHour.objects.create(**burst_hour(other.id, 500, 11, sent=600, received=300, rtt=999.0))
    BurstHour.objects.create(**burst_hour(back.id, 100, 11, sent=200, received=190, rtt=40.0))
    BurstHour.objects.create(**burst_hour(back.id, 100, 12, sent=200, received=200, rtt=40.0))
    throughput_tests(path.id, back.id)
    capacities(path.id)
    incident(path, back)
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
    return {"source": "slac", "destination": "cern", "family": "4", "path": str(path.id), "packet_bytes": "100"}


def site(name: str) -> Site:
    return Site.objects.create(
        name=name, title=name.upper(), latitude_deg=0, longitude_deg=0, country="US", region="x", has_agent=True
    )


def host(name: str, owner: Site, family: int = 4) -> Host:
    return Host.objects.create(site=owner, name=name, address=f"{name}.example", family=family)


def measure(path: Path) -> None:
    """A ping test of 100 bytes each minute since 08:00, and a throughput test, for which no bursts are due."""
    ping = mesh.Test.objects.create(name="pinger", kind="ping", every_s=60)
    tcp = mesh.Test.objects.create(name="tcp", kind="throughput", every_s=3600)
    for test, sizes in ((ping, [100]), (tcp, [])):
        measurement = Measurement.objects.create(path=path, test=test, started_at=hour(8))
        period(measurement, test.every_s, sizes, hour(8))


def period(
    measurement: Measurement, every_s: int, sizes: list[int], started_at: datetime, ended_at: datetime | None = None
) -> None:
    mesh.MeasurementPeriod.objects.create(
        measurement=measurement, every_s=every_s, packet_bytes=sizes, started_at=started_at, ended_at=ended_at
    )


def burst_hour(path_id: int, packet_bytes: int, at: int, **values: Any) -> dict[str, Any]:
    """The columns of an hour; `rtt` is the median, the other quantiles are around it in whole ms."""
    rtt = values.pop("rtt", None)
    offsets = {"min": -2, "p25": -1, "median": 0, "p75": 1, "p95": 2, "max": 3, "avg": 0}
    quantiles = {f"rtt_{name}_ms": None if rtt is None else rtt + offset for name, offset in offsets.items()}
    counts = dict.fromkeys(
        ("bursts_all_lost", "bursts_none_lost", "bursts_during_test", "bursts_not_measured", "duplicates", "reordered"),
        0,
    )
    row = {"path_id": path_id, "packet_bytes": packet_bytes, "hour": hour(at), "bursts": values["sent"] // 10}
    return row | counts | quantiles | values


def burst_hours(path_id: int) -> None:
    """10:00 loses 6 of 600, 11:00 none of 580 with 2 bursts during a test, 12:00 everything with half of it missing,
    13:00 has no row; 09:00 and 14:00 are outside the period."""
    rows = [
        burst_hour(path_id, 100, 9, sent=600, received=1, rtt=1.0, estimate_bps=1.0, estimate_is_floor=False),
        burst_hour(
            path_id,
            100,
            10,
            sent=600,
            received=594,
            rtt=152.0,
            ipdv_ms=2.5,
            estimate_bps=7.8e5,
            estimate_is_floor=False,
        ),
        burst_hour(
            path_id,
            100,
            11,
            sent=580,
            received=580,
            rtt=150.0,
            bursts_none_lost=58,
            bursts_during_test=2,
            estimate_bps=1.1e6,
            estimate_is_floor=True,
        ),
        burst_hour(path_id, 100, 12, sent=100, received=0, bursts_all_lost=10, bursts_not_measured=20),
        burst_hour(path_id, 100, 14, sent=600, received=1, rtt=1.0, estimate_bps=1.0, estimate_is_floor=False),
        burst_hour(path_id, 1000, 11, sent=2, received=2, rtt=160.0, bursts_none_lost=1),
    ]
    for row in rows:
        BurstHour.objects.create(**row)


def throughput_tests(path_id: int, other_path_id: int) -> None:
    def at(number: int) -> datetime:
        return hour(number) + timedelta(minutes=20)

    measured = {"test": "tcp", "outcome": "measured", "streams": 1, "duration_s": 10.0}
    for which, when, bps in ((path_id, 9, 1.0), (path_id, 11, 9.4e6), (other_path_id, 12, 2.0)):
        ThroughputTest.objects.create(
            path_id=which, measured_at=at(when), throughput_bps=bps, retransmits=3, rtt_mean_ms=151.5, **measured
        )
    ThroughputTest.objects.create(
        path_id=path_id, measured_at=at(12), test="tcp", outcome="busy", streams=1, detail="the server runs a test"
    )


def capacities(path_id: int) -> None:
    """At 11:40 a capacity, at 12:40 a lower bound, at 13:40 a capacity disturbed by our own throughput test."""
    rows = [
        (11, {"verdict": "measured", "capacity_bps": 1e8, "capacity_low_bps": 9e7, "capacity_high_bps": 1.1e8}),
        (12, {"verdict": "not_below", "capacity_low_bps": 1e9, "detail": "stamps too coarse"}),
        (13, {"verdict": "measured", "capacity_bps": 5.0, "during_test": True}),
    ]
    for number, values in rows:
        CapacityResult.objects.create(
            **{
                "path_id": path_id,
                "measured_at": hour(number) + timedelta(minutes=40),
                "test": "narrow",
                "outcome": "measured",
                "sent": 184,
                "received": 180,
                "method": "dispersion",
                "during_test": False,
                **values,
            }
        )


def incident(path: Path, other: Path) -> None:
    """An incident on the path from 11:05 to 12:10, another on another path, and a pending one, which does not count."""
    times = [(path, hour(11), hour(12), False), (other, hour(11), None, False), (path, hour(13), None, True)]
    for number, (of, opened_at, closed_at, is_pending) in enumerate(times):
        opened = Incident.objects.create(
            rule="loss",
            cause=f"cause {number}",
            opened_at=opened_at + timedelta(minutes=5),
            closed_at=closed_at and closed_at + timedelta(minutes=10),
            summary=f"summary {number}",
            is_pending=is_pending,
        )
        IncidentPath.objects.create(
            incident=opened,
            path=of,
            added_at=opened_at,
            rule="loss",
            sentence="x",
            since=opened_at,
            figures={},
            is_over=closed_at is not None,
        )


PERIOD_COLUMNS = (
    "Packet size, bytes",
    "Bursts",
    "Not measured",
    "Packets sent",
    "Packets lost",
    "Loss",
    "Loss, upper bound",
    "RTT minimum",
    "RTT median",
    "RTT maximum",
)
RTT_COLUMNS = ("time", "Minimum", "25%", "Median", "75%", "95%", "Maximum")
COVERAGE_COLUMNS = ("time", "Measured", "100% loss", "During throughput test", "Not measured", "Not reported")
TEST_COLUMNS = (
    "time",
    "Test",
    "Outcome",
    "Throughput",
    "Streams",
    "Duration",
    "Retransmits",
    "RTT mean",
    "Limit or error",
)
CAPACITY_COLUMNS = (
    "time",
    "Test",
    "Outcome",
    "Verdict",
    "Capacity",
    "Lower bound",
    "Upper bound",
    "Method",
    "During test",
    "Reason",
)
ESTIMATE_COLUMNS = ("time", "Mathis estimate", "Mathis estimate, no loss: lower bound")

# Columns and rows by hand, from the rows of `archive`. 106 lost of 1280 at 100 bytes; 1174 replies, of which 594 at a
# median of 152 ms are more than half; 3/2 is not a ratio, so it is capped at 1.
EXPECTED: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
    "$source": (("__text", "__value"), [("CERN", "cern"), ("SLAC", "slac")]),
    "$destination": (("__text", "__value"), [("CERN", "cern"), ("KEK (retired)", "kek")]),
    "$soundings": (("__value",), [("http://localhost:8000",)]),
    "$family": (("__text", "__value"), [("IPv4", "4"), ("IPv6", "6")]),
    "@Incidents": (
        ("time", "timeEnd", "text", "tags"),
        [(hour(11) + timedelta(minutes=5), hour(12) + timedelta(minutes=10), "summary 0", "loss,resolved")],
    ),
    "$packet_bytes": (("__text", "__value"), [("100 bytes", "100"), ("1000 bytes", "1000")]),
    "$covers": (("__value",), [("whole hours since 2025-03-03 10:00 UTC",)]),
    "Statistics by packet size/A": (
        PERIOD_COLUMNS,
        [
            (100, 128, 20, 1280, 106, 106 / 1280, None, 148, 152, 155),
            (1000, 0, 0, 2, 0, None, 1, 158, 160, 163),
        ],
    ),
    "RTT (ms)/A": (
        RTT_COLUMNS,
        [
            (SINCE, 150, 151, 152, 153, 154, 155),
            (hour(11), 148, 149, 150, 151, 152, 153),
            (hour(12), None, None, None, None, None, None),
            (hour(13), None, None, None, None, None, None),
            (UNTIL, None, None, None, None, None, None),
        ],
    ),
    "Jitter, IPDV (ms)/A": (
        ("time", "IPDV"),
        [(SINCE, 2.5), (hour(11), None), (hour(12), None), (hour(13), None), (UNTIL, None)],
    ),
    "Packet loss (% of packets sent)/A": (
        ("time", "Lost"),
        [(hour(10), 0.01), (hour(11), 0), (hour(12), 1), (hour(13), None)],
    ),
    "Packet loss (% of packets sent)/B": (("time", "No loss: upper bound 3/N"), [(hour(11), 3 / 580)]),
    "RTT, reverse path (ms)/A": (
        RTT_COLUMNS,
        [
            (SINCE, None, None, None, None, None, None),
            (hour(11), 38, 39, 40, 41, 42, 43),
            (hour(12), 38, 39, 40, 41, 42, 43),
            (hour(13), None, None, None, None, None, None),
            (UNTIL, None, None, None, None, None, None),
        ],
    ),
    "Packet loss, reverse path (% of packets sent)/A": (
        ("time", "Lost"),
        [(hour(10), None), (hour(11), 0.05), (hour(12), 0), (hour(13), None)],
    ),
    "Packet loss, reverse path (% of packets sent)/B": (
        ("time", "No loss: upper bound 3/N"),
        [(hour(12), 3 / 200)],
    ),
    "Loss by direction, STAMP (% of packets sent)/A": (("time", "Forward", "Reverse"), []),
    "One-way delay, STAMP (ms)/A": (("time",), []),
    "Retransmits by test (segments)/A": (("time", "Retransmits"), [(hour(11) + timedelta(minutes=20), 3)]),
    "@Summaries behind": (("time", "timeEnd", "text", "tags"), []),
    "@Route changes": (("time", "text", "tags"), []),
    "@Reply TTL": (("time", "text", "tags"), []),
    "Throughput: measured, estimated, capacity (bit/s)/A": (
        ("time", "Measured"),
        [(hour(11) + timedelta(minutes=20), 9.4e6)],
    ),
    "Throughput: measured, estimated, capacity (bit/s)/B": (
        ESTIMATE_COLUMNS,
        [
            (SINCE, 7.8e5, None),
            (hour(11), None, 1.1e6),
            *((at, None, None) for at in (hour(12), hour(13), UNTIL)),
        ],
    ),
    "Throughput: measured, estimated, capacity (bit/s)/C": (
        ("time", "Capacity"),
        [(hour(11) + timedelta(minutes=40), 1e8)],
    ),
    "Coverage (bursts)/A": (
        COVERAGE_COLUMNS,
        [
            (hour(10), 60, 0, 0, 0, 0),
            (hour(11), 58, 0, 2, 0, 0),
            (hour(12), 0, 10, 0, 20, 30),
            (hour(13), None, None, None, None, 60),
        ],
    ),
    "Throughput tests, newest first/A": (
        TEST_COLUMNS,
        [
            (hour(12) + timedelta(minutes=20), "tcp", "busy", None, 1, None, None, None, "the server runs a test"),
            (hour(11) + timedelta(minutes=20), "tcp", "measured", 9.4e6, 1, 10, 3, 151.5, None),
        ],
    ),
}


@pytest.mark.parametrize("where", [where for where in QUERIES if where not in ("$path", "$path_page")])
def test_a_query_returns_the_inserted_measurements(where: str, archive: dict[str, str]) -> None:
    columns, rows = EXPECTED[where]

    table_rows = run(QUERIES[where], archive)

    assert table_rows == [{name: about(value) for name, value in zip(columns, row, strict=True)} for row in rows]


def test_every_capacity_measurement_is_listed_with_its_reason(archive: dict[str, str]) -> None:
    sql = of_dashboard("throughput")["Capacity measurements, newest first/A"]
    at = [hour(number) + timedelta(minutes=40) for number in (13, 12, 11)]
    method = "dispersion"

    table_rows = run(sql, archive)

    rows = [
        (at[0], "narrow", "measured", "measured", 5.0, None, None, method, "yes", None),
        (at[1], "narrow", "measured", "not_below", None, 1e9, None, method, "no", "stamps too coarse"),
        (at[2], "narrow", "measured", "measured", 1e8, 9e7, 1.1e8, method, "no", None),
    ]
    assert table_rows == [
        {name: about(value) for name, value in zip(CAPACITY_COLUMNS, row, strict=True)} for row in rows
    ]


def test_the_path_variable_has_the_paths_between_the_two_sites(archive: dict[str, str]) -> None:
    path6 = Path.objects.get(family=6)

    rows = run(QUERIES["$path"], archive)

    assert rows == [{"__text": "slac → cern (IPv4)", "__value": archive["path"]}]
    assert run(QUERIES["$path"], archive | {"family": "6"}) == [
        {"__text": "slac6 → cern6 (IPv6)", "__value": str(path6.id)}
    ]


def test_a_retired_path_is_still_listed_as_retired(archive: dict[str, str]) -> None:
    rows = run(QUERIES["$path"], archive | {"destination": "kek"})

    assert [row["__text"] for row in rows] == ["slac → kek (IPv4), retired"]


@pytest.mark.parametrize("where", QUERIES)
def test_a_query_without_a_selection_gives_no_rows(where: str, archive: dict[str, str]) -> None:
    nothing = dict.fromkeys(archive, "")

    rows = run(QUERIES[where], nothing)

    shows_without_choice = {"$soundings": 1, "$covers": 1, "$path_page": 1, "$source": 2, "Coverage (bursts)/A": 4}
    assert len(rows) == shows_without_choice.get(where, 0)
    if where.startswith("Coverage"):
        assert {value for row in rows for name, value in row.items() if name != "time"} == {None}


@pytest.mark.parametrize("where", QUERIES)
def test_a_quote_in_a_variable_stays_text(where: str, archive: dict[str, str]) -> None:
    hostile = dict.fromkeys(archive, "") | {"source": "o'; DROP TABLE site; --", "destination": "'"}

    run(QUERIES[where], hostile)

    assert Site.objects.count() == 3


def test_an_unfinished_hour_is_not_said_to_lack_reports(archive: dict[str, str]) -> None:
    """The database's now() is the start of the test's transaction, which may be in the hour before."""
    now = datetime.now(UTC)

    rows = run(QUERIES["Coverage (bursts)/A"], archive, now - timedelta(hours=3), now + timedelta(hours=2))

    missing = [row["Not reported"] for row in rows]
    assert len(missing) >= 3
    assert missing[-1] is None
    assert set(missing[:-1]) == {60}


def test_due_bursts_follow_the_schedules_in_force(archive: dict[str, str]) -> None:
    """Each minute until 16:30, none until 17:15, each two minutes until 18:00; nothing of another size counts."""
    measurement = Measurement.objects.get(test__kind="ping")
    measurement.periods.update(ended_at=hour(16) + timedelta(minutes=30))
    period(measurement, 120, [100, 1000], hour(17) + timedelta(minutes=15), hour(18))
    period(measurement, 10, [1000], hour(18))

    rows = run(QUERIES["Coverage (bursts)/A"], archive, hour(15), hour(19))

    assert [row["Not reported"] for row in rows] == [60, 30, 22, 0]


def test_the_role_reads_only_the_views_of_reporting(archive: dict[str, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            # Without the chunks of hypertables: TimescaleDB keeps them in a separate schema, with their table's grants.
            "SELECT table_schema, privilege_type, count(*) FROM information_schema.role_table_grants"
            " WHERE grantee = %s AND table_schema IN ('public', 'reporting') GROUP BY 1, 2",
            [ROLE],
        )
        granted = cursor.fetchall()
        cursor.execute("SELECT count(*) FROM pg_views WHERE schemaname = 'reporting'")
        assert granted == [("reporting", "SELECT", *cursor.fetchone())]
        for table in ("agent_token", "user_token", "burst", "host", "auth_user"):
            cursor.execute("SELECT has_table_privilege(%s, %s, 'SELECT')", [ROLE, table])
            assert cursor.fetchone() == (False,), table
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        with pytest.raises(ProgrammingError, match="permission denied for table agent_token"):
            cursor.execute("SELECT * FROM agent_token")


def test_no_view_has_addresses_tokens_or_refused_results(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_schema = 'reporting'")
        columns = {name for (name,) in cursor.fetchall()}

    assert columns >= {"loss_max_ratio", "capacity_bps", "cause", "queue_length"}
    assert columns.isdisjoint({"address", "digest", "token", "result", "password", "transfer", "rtts_ms", "health"})


def test_granting_again_revokes_grants_of_an_earlier_release(db: None) -> None:
    with connection.cursor() as cursor:
        grant(cursor, "first")
        cursor.execute(f"GRANT SELECT, DELETE ON agent_token, site TO {ROLE}")
        cursor.execute(f"GRANT SELECT ON burst_hour TO {ROLE}")

        grant(cursor, "second")

        for table, privilege, allowed in (
            ("agent_token", "SELECT", False),
            ("site", "DELETE", False),
            ("burst_hour", "SELECT", False),
            ("reporting.site", "SELECT", True),
            ("reporting.site", "DELETE", False),
        ):
            cursor.execute("SELECT has_table_privilege(%s, %s, %s)", [ROLE, table, privilege])
            assert cursor.fetchone() == (allowed,)


def test_the_role_logs_in_by_password_file_and_cannot_write(
    transactional_db: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "it's \\ secret"
    (tmp_path / "password").write_text(f"{secret}\n")
    monkeypatch.setenv("SOUNDINGS_DATABASE_URL", connection_url())
    monkeypatch.setenv("SOUNDINGS_PUBLIC_URL", "https://soundings.example/")

    try:
        grant_from_environment(tmp_path / "password")

        with psycopg.connect(superuser_url(connection.settings_dict["NAME"])) as superuser:
            (verifier,) = superuser.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", [ROLE]).fetchone()
            assert is_scram_of(verifier, secret)
        with psycopg.connect(connection_url(), user=ROLE, password=secret) as reader:
            assert reader.execute("SELECT count(*) FROM reporting.site").fetchone() == (0,)
            assert reader.execute(QUERIES["$soundings"]).fetchone() == ("https://soundings.example",)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                reader.execute("CREATE TABLE nothing ()")
            reader.rollback()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("DELETE FROM reporting.site")
    finally:
        with psycopg.connect(superuser_url(connection.settings_dict["NAME"])) as superuser:
            superuser.execute(f"DROP OWNED BY {ROLE}")
            superuser.execute(f"DROP ROLE {ROLE}")


def is_scram_of(verifier: str, password: str) -> bool:
    """Whether a verifier is that of the password, by RFC 5803 and RFC 7677. A given server may trust everybody."""
    _, iterations_and_salt, keys = verifier.split("$")
    iterations, salt = iterations_and_salt.split(":")
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(iterations))
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return base64.b64decode(keys.split(":")[0]) == stored


def connection_url() -> str:
    """The test database as a connection string of libpq."""
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port", "passfile")
    return psycopg.conninfo.make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})


def test_a_missing_schema_is_reported_with_a_fix(
    postgres_server: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text("x")
    monkeypatch.setenv("SOUNDINGS_DATABASE_URL", psycopg.conninfo.make_conninfo(postgres_server, dbname="template1"))

    with pytest.raises(ReaderError, match=r'schema "reporting" .*not exist.*manage\.py migrate'):
        grant_from_environment(password)


def test_without_a_database_the_command_names_the_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOUNDINGS_DATABASE_URL", raising=False)
    monkeypatch.setenv("SOUNDINGS_DATA", str(tmp_path))

    with pytest.raises(ReaderError, match=rf"{tmp_path}/postgres: .*manage\.py up"):
        grant_from_environment(tmp_path / "password")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, r"password: No such file or directory.* --password-file"), (" \n", r"password: is empty; write")],
)
def test_an_unusable_password_file_is_named(
    content: str | None, message: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOUNDINGS_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
    if content is not None:
        (tmp_path / "password").write_text(content)

    with pytest.raises(ReaderError, match=message):
        grant_from_environment(tmp_path / "password")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [  # Grafana's documentation: the table of macros, and "Variable syntax" for the formats
        (
            "WHERE $__timeFilter(dateColumn)",
            "WHERE dateColumn BETWEEN '2017-04-21T05:01:17Z' AND '2017-04-21T05:06:17Z'",
        ),
        ("> $__timeFrom()", "> '2017-04-21T05:01:17Z'"),
        ("< $__timeTo()", "< '2017-04-21T05:06:17Z'"),
        ("SELECT $__time(dateColumn)", 'SELECT dateColumn AS "time"'),
        ("= ${name:sqlstring}", "= 'o''brien'"),
        ("$__timeGroup(at, '5m')", "floor(extract(epoch from at)/300)*300"),
        ("$__timeGroupAlias(at, $__interval)", 'floor(extract(epoch from at)/3600)*3600 AS "time"'),
        ("= '$name'", "= 'o''brien'"),
        ("= ${name:raw}", "= o'brien"),
    ],
)
def test_the_expander_follows_grafanas_documentation(text: str, expanded: str) -> None:
    since, until = (datetime(2017, 4, 21, 5, minute, 17, tzinfo=UTC) for minute in (1, 6))

    assert expand(text, {"name": "o'brien"}, since, until) == expanded


@pytest.mark.parametrize("text", ["$__timeFliter(hour)", "$sauce", "${source:sqlstrin}"])
def test_the_expander_refuses_names_unknown_to_grafana(text: str) -> None:
    with pytest.raises(KeyError):
        expand(text, {"source": "x"}, SINCE, UNTIL)
