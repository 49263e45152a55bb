"""A real streaming standby: an acknowledged delivery is on both servers, and one command promotes."""

import io
from datetime import timedelta

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from psycopg.conninfo import make_conninfo

from monitor import replicated, standby_reads
from monitor.archive.models import Burst
from monitor.archive.upkeep.trouble import TroubleKind, kind_of
from monitor.mesh.models import Site
from monitor.replicated import NotReplicated
from monitor.stack.standby import SLOT
from monitor.standby_reads import STANDBY
from tests import postgres
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store
from tests.e2e.stack import wait_for
from tests.standby import standby_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(postgres.cluster is None, reason="needs the tests' own server"),
]


@pytest.fixture
def standby(tmp_path, settings):
    settings.ACKNOWLEDGE = "standby"
    database = connection.settings_dict["NAME"]
    with standby_of(postgres.cluster, database, tmp_path / "standby") as server:
        wait_for(lambda: query(server, "SELECT status FROM pg_stat_wal_receiver") == "streaming", 60, "it streams")
        try:
            yield server
        finally:
            with psycopg.connect(postgres.superuser_url(database), autocommit=True) as primary:
                for name in ("synchronous_standby_names", "max_slot_wal_keep_size"):
                    primary.execute(f"ALTER SYSTEM RESET {name}")
                primary.execute("SELECT pg_reload_conf()")
                primary.execute(f"ALTER DATABASE {database} RESET synchronous_commit")
                server.stop()
                wait_for(lambda: slot_is_free(primary), 60, "the slot is free")
                primary.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])


def slot_is_free(primary):
    return primary.execute("SELECT NOT active FROM pg_replication_slots").fetchone()[0]


def query(server, text):
    with psycopg.connect(server.cluster.superuser_url(connection.settings_dict["NAME"])) as standby:
        row = standby.execute(text).fetchone()
        return None if row is None else row[0]


@pytest.fixture
def url_file(standby, tmp_path):
    file = tmp_path / "url"
    file.write_text(standby.cluster.superuser_url(connection.settings_dict["NAME"]))
    return file


def test_an_acknowledged_delivery_is_on_the_standby(standby):
    mesh = make_mesh()

    for number in range(1, 6):
        measured = burst(10.5, at=HOUR + number * timedelta(minutes=1))
        store(mesh.slac.pk, batch(delivered(mesh.slac_cern, measured, number), number=number), NOW)

        assert query(standby, "SELECT count(*) FROM burst") == number


def test_without_the_standby_a_delivery_is_stored_but_not_acknowledged(standby, monkeypatch):
    monkeypatch.setattr(replicated, "WAIT_S", 1.0)
    mesh = make_mesh()
    sent = batch(delivered(mesh.slac_cern, burst(10.5)))
    query(standby, "SELECT pg_wal_replay_pause()")

    for _ in range(2):  # the second finds all stored: it has nothing to write itself
        with pytest.raises(NotReplicated) as error:
            store(mesh.slac.pk, sent, NOW)
        assert kind_of(error.value) is TroubleKind.NOT_REPLICATED
    query(standby, "SELECT pg_wal_replay_resume()")

    assert store(mesh.slac.pk, sent, NOW).accepted == 1
    assert Burst.objects.count() == 1
    assert query(standby, "SELECT count(*) FROM burst") == 1


def test_only_deliveries_wait_for_the_standby(standby):
    standby.stop()
    connection.close()  # its setting is that of new connections

    make_mesh()

    standby.start()


@pytest.fixture
def pages_read_standby(standby, monkeypatch):
    of_standby = {**connection.settings_dict, "HOST": str(standby.cluster.socket_dir)}
    monkeypatch.setitem(connections.settings, STANDBY, of_standby)
    monkeypatch.setattr(standby_reads, "_left_alone_until_s", 0.0)
    connections[STANDBY].connect()  # by hand: Django's tests refuse to connect to a database that they did not make
    yield standby
    connections[STANDBY].close()
    del connections[STANDBY]


def read_page(client):
    """The grid page, and whether it was read from the standby."""
    text = client.get("/", headers={"host": "localhost"}).content.decode()
    assert "SLAC" in text
    return text, "from the standby of the database" in text


def test_a_page_is_read_from_the_standby_and_says_as_of_when(pages_read_standby, client):
    make_mesh()
    wait_for(lambda: query(pages_read_standby, "SELECT count(*) = 3 FROM site"), 30, "the sites are replicated")
    query(pages_read_standby, "SELECT pg_wal_replay_pause()")
    Site.objects.filter(name="slac").update(title="SLAC as it is now")

    text, is_of_standby = read_page(client)

    as_of = query(pages_read_standby, "SELECT pg_last_xact_replay_timestamp()")
    assert is_of_standby
    assert f'datetime="{as_of:%Y-%m-%dT%H:%M:%S}' in text
    assert "SLAC as it is now" not in text
    query(pages_read_standby, "SELECT pg_wal_replay_resume()")


def test_who_has_changed_something_reads_the_primary(pages_read_standby, client):
    make_mesh()

    client.post("/settings/", {"theme": "dark", "time_zone": "UTC"}, headers={"host": "localhost"})

    assert not read_page(client)[1]


def test_a_page_is_read_from_the_primary_without_the_standby(pages_read_standby, client):
    make_mesh()
    read_page(client)

    pages_read_standby.stop()

    assert not read_page(client)[1]
    pages_read_standby.start()


def test_a_reader_with_limits_reads_the_primary(pages_read_standby, client, monkeypatch):
    make_mesh()
    monkeypatch.setattr("monitor.web.request.standby.is_limited", lambda: True)

    assert not read_page(client)[1]


def test_a_url_of_both_servers_leads_to_the_promoted(standby, url_file):
    first, second = (cluster.socket_dir for cluster in (standby.cluster, postgres.cluster))
    both = make_conninfo(url_file.read_text(), host=f"{first},{second}", target_session_attrs="read-write")

    def server():
        with psycopg.connect(both) as primary:
            return primary.info.host

    assert server() == str(second)
    output = io.StringIO()
    call_command("database", "promote", superuser_url_file=url_file, stdout=output)

    assert server() == str(first)
    assert "the standby is the primary now" in output.getvalue()
    assert query(standby, "SHOW synchronous_standby_names") == ""
    with pytest.raises(CommandError, match="no standby"):
        call_command("database", "promote", superuser_url_file=url_file)


def test_a_folder_with_files_is_not_overwritten(standby, url_file, tmp_path):
    with pytest.raises(CommandError, match="not empty"):
        call_command("database", "standby", superuser_url_file=url_file, folder=standby.cluster.directory)
    with pytest.raises(CommandError, match="a standby itself"):
        call_command("database", "standby", superuser_url_file=url_file, folder=tmp_path / "other")
