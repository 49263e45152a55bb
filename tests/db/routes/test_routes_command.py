"""`manage.py routes`: a table is replaced as a whole or not at all, its date is shown, and addresses are looked up."""

import io
import json
import threading
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from monitor.mesh.models import Mesh
from monitor.routes import loaded_tables
from monitor.routes.models import LoadedTable, NameOutcome, ReverseName
from monitor.routes.places import HopName, as_names, of_addresses
from tests import address_files
from tests.facts import lacks

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FIRST = "8.8.8.0,8.8.8.255,64496,First\n"
SECOND = "8.8.8.0,8.8.8.255,64497,Second\n195.66.224.0,195.66.231.255,64499,Operator\n"


def run(*arguments):
    output = io.StringIO()
    call_command("routes", *map(str, arguments), stdout=output)
    return output.getvalue()


def load(tmp_path, content, table="asn"):
    file = tmp_path / f"{table}.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return run(table, "load", file)


def test_a_load_replaces_the_table_in_every_process(tmp_path):
    load(tmp_path, FIRST)
    assert of_addresses(["8.8.8.8"])["8.8.8.8"] == HopName(asn=64496, as_name="First")

    load(tmp_path, SECOND)

    assert of_addresses(["8.8.8.8"])["8.8.8.8"] == HopName(asn=64497, as_name="Second")
    assert LoadedTable.objects.count() == 1


def test_a_bad_file_changes_nothing(tmp_path):
    load(tmp_path, FIRST)
    before = LoadedTable.objects.values().get()

    with pytest.raises(CommandError) as raised:
        load(tmp_path, SECOND + "8.8.8.8,7.7.7.7,1,x\n")

    assert lacks(str(raised.value), "asn.csv:3: ", "8.8.8.8 is after 7.7.7.7", "nothing was changed") == []
    assert LoadedTable.objects.values().get() == before
    assert of_addresses(["8.8.8.8"])["8.8.8.8"].asn == 64496


def test_the_status_has_source_date_age_and_size(tmp_path):
    assert lacks(run("asn", "status"), "no table loaded", "manage.py routes asn load") == []
    assert json.loads(run("asn", "status", "--json")) is None

    networks = [("8.8.8.0/24", 64496, "US"), ("2001:db8::/32", 64497, "CH")]
    printed = load(tmp_path, address_files.libloc(networks, {64496: "FIRST"}))

    assert lacks(printed, "Test Vendor, 2020-09-13, Test Licence", "days old", "1 IPv4, 1 IPv6; 2 AS") == []
    assert printed == run("asn", "status")
    status = json.loads(run("asn", "status", "--json"))
    assert (status["source"], status["licence"]) == ("libloc database of Test Vendor", "Test Licence")
    assert (status["dated_at"], status["ipv4_ranges"]) == ("2020-09-13T12:26:40Z", 1)


def test_a_lookup_prints_all_names_and_the_source(tmp_path):
    load(tmp_path, SECOND)
    load(tmp_path, "195.66.224.0/21,LINX LON1\n", table="ixp")
    ReverseName.objects.create(address="8.8.8.8", name="dns.example", outcome="named", due_at=NOW, seen_at=NOW)

    lines = run("asn", "lookup", "8.8.8.8", "195.66.224.9", "10.0.0.1", "9.9.9.9").splitlines()

    assert lines[0].split() == ["8.8.8.8", "AS", "64497", "Second,", "name", "dns.example"]
    assert lines[1].split(maxsplit=1) == ["195.66.224.9", "exchange LINX LON1"]
    assert lines[2].split(maxsplit=1) == ["10.0.0.1", "private (RFC 1918)"]
    assert lines[3].split(maxsplit=1) == ["9.9.9.9", "unknown"]
    assert lacks(lines[4], "AS numbers: asn.csv, 20") == []
    assert json.loads(run("asn", "lookup", "8.8.8.8", "--json"))["8.8.8.8"]["as_name"] == "Second"


def test_a_lookup_of_text_is_refused():
    with pytest.raises(CommandError, match=r'"router\.example" is not an IP address'):
        run("asn", "lookup", "router.example")


def test_everything_works_without_tables():
    assert of_addresses(["8.8.8.8", "10.0.0.1", "?"]) == {
        "8.8.8.8": HopName(),
        "10.0.0.1": HopName(special="private (RFC 1918)"),
        "?": HopName(),
    }
    assert loaded_tables.sources() == []


def test_own_networks_win_over_tables(tmp_path):
    networks = {
        "8.8.0.0/16": {"name": "backbone", "asn": 64500},
        "8.8.8.0/25": {"name": "campus", "asn": None},
        "10.0.0.0/8": {"name": "lab", "asn": None},
    }
    Mesh.objects.create(name="Mesh", applied_at=NOW, networks=networks)
    load(tmp_path, SECOND + "9.0.0.0,9.0.0.9,64500,Backbone Ltd\n")

    names = of_addresses(["8.8.8.8", "8.8.8.200", "10.1.1.1"])

    assert names["8.8.8.8"] == HopName(asn=64497, as_name="Second", network="campus")
    assert names["8.8.8.200"] == HopName(asn=64500, as_name="Backbone Ltd", network="backbone")
    assert names["10.1.1.1"] == HopName(network="lab", special="private (RFC 1918)")

    Mesh.objects.update(networks={})
    assert of_addresses(["8.8.8.8"])["8.8.8.8"].network is None


def test_the_as_of_an_exchange_is_that_of_its_member(tmp_path):
    load(tmp_path, SECOND)
    members = [{"ixlan_id": 1, "name": "LINX LON1", "asn": 64497, "ipaddr4": "195.66.224.10"}]
    prefixes = [{"ixlan_id": 1, "prefix": "195.66.224.0/21"}]
    load(tmp_path, json.dumps([*members, *prefixes]), table="ixp")

    names = of_addresses(["195.66.224.9", "195.66.224.10"])

    assert names["195.66.224.9"] == HopName(ixp="LINX LON1")
    assert names["195.66.224.10"] == HopName(asn=64497, as_name="Second", ixp="LINX LON1")


def test_any_number_of_addresses_takes_two_queries(tmp_path, django_assert_num_queries):
    load(tmp_path, SECOND)
    addresses = [f"8.8.{third}.{last}" for third in range(8, 10) for last in range(256)]
    ReverseName.objects.create(
        address="2001:db8::1", name="r.example", outcome=NameOutcome.NAMED, due_at=NOW, seen_at=NOW
    )
    of_addresses(["8.8.8.8"])

    with django_assert_num_queries(2):
        names = of_addresses([*addresses, "2001:DB8:0::1"])

    assert sum(name.asn == 64497 for name in names.values()) == 256
    assert names["2001:DB8:0::1"].host_name == "r.example"


@pytest.mark.django_db(transaction=True)
def test_loads_at_the_same_time_leave_one_table(tmp_path):
    files = [tmp_path / f"{number}.csv" for number in range(4)]
    for number, file in enumerate(files, 1):
        file.write_text(f"8.8.8.0,8.8.8.255,{number},Table {number}\n")

    def load_and_close(file):
        try:
            run("asn", "load", file)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=load_and_close, args=[file]) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    name = of_addresses(["8.8.8.8"])["8.8.8.8"]
    assert name.as_name == f"Table {name.asn}"
    assert LoadedTable.objects.get().source == f"{name.asn - 1}.csv"


def test_an_as_has_its_name_wherever_it_is_shown(tmp_path, django_assert_num_queries):
    assert as_names([64497]) == {64497: None}
    load(tmp_path, SECOND + "9.0.0.0,9.0.0.9,64500,\n")
    of_addresses([])

    with django_assert_num_queries(1):
        assert as_names([64497, 64499, 64500, 1]) == {64497: "Second", 64499: "Operator", 64500: None, 1: None}
    names = of_addresses(["8.8.8.8", "9.0.0.1", "10.0.0.1"])
    assert [name.as_text for name in names.values()] == ["AS 64497 Second", "AS 64500", None]
