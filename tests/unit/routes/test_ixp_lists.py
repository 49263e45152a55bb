"""Lists of exchange points: CSV, and JSON of PeeringDB as a dump or as answers of its API."""

import json

import pytest

from monitor.routes.formats import ixp_lists
from monitor.routes.formats.ixp_lists import read_ixp_lists
from monitor.routes.formats.table_file import FileFault
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.batches import AddressBatch
from tests.facts import lacks

IX = [{"id": 18, "name": "LINX LON1", "status": "ok"}, {"id": 26, "name": "AMS-IX", "status": "ok"}]
IXLAN = [{"id": 18, "ix_id": 18, "name": "Main"}, {"id": 260, "ix_id": 26, "name": ""}]
IXPFX = [
    {"id": 1, "ixlan_id": 18, "protocol": "IPv4", "prefix": "195.66.224.0/21", "status": "ok"},
    {"id": 2, "ixlan_id": 260, "protocol": "IPv6", "prefix": "2001:7f8:1::/64", "status": "ok"},
    {"id": 3, "ixlan_id": 99, "protocol": "IPv4", "prefix": "203.0.113.0/24", "status": "deleted"},
]
NETIXLAN = [
    {"id": 7, "ix_id": 18, "ixlan_id": 18, "name": "LINX LON1: Main", "asn": 64496, "ipaddr4": "195.66.224.10"},
    {
        "id": 8,
        "ix_id": 26,
        "ixlan_id": 260,
        "name": "AMS-IX",
        "asn": 64497,
        "ipaddr4": None,
        "ipaddr6": "2001:7f8:1::a5",
    },
]


def read(tmp_path, **contents):
    files = []
    for name, content in contents.items():
        files.append(tmp_path / name)
        files[-1].write_text(content if isinstance(content, str) else json.dumps(content))
    return read_ixp_lists(files)


def entries(contents, *addresses):
    return [contents.table.entry(number) for number in contents.table.find(AddressBatch.parse(addresses)).tolist()]


def fault(tmp_path, **contents):
    with pytest.raises(FileFault) as raised:
        read(tmp_path, **contents)
    return str(raised.value)


@pytest.mark.parametrize("header", ["", "prefix,name\n", "# our exchanges\n"])
def test_csv_of_prefixes_and_names_is_read(tmp_path, header):
    contents = read(tmp_path, ixp=f'{header}195.66.224.0/21,"LINX, London"\n2001:7f8:1::/64,AMS-IX\n')

    assert entries(contents, "195.66.224.1", "2001:7f8:1::1", "195.66.232.0") == [
        Entry(None, None, "LINX, London"),
        Entry(None, None, "AMS-IX"),
        Entry(),
    ]


@pytest.mark.parametrize(
    "contents",
    [
        {
            "dump": {
                "ix": {"data": IX},
                "ixlan": {"data": IXLAN},
                "ixpfx": {"data": IXPFX},
                "netixlan": {"data": NETIXLAN},
            }
        },
        {"a": {"data": IXPFX, "meta": {}}, "b": {"data": IX}, "c": {"data": IXLAN}, "d": {"data": NETIXLAN}},
        {"a": IXPFX, "b": IX, "c": IXLAN, "d": NETIXLAN},
    ],
)
def test_peeringdb_names_exchanges_and_their_members(tmp_path, contents):
    assert entries(read(tmp_path, **contents), "195.66.224.1", "195.66.224.10", "2001:7f8:1::a5", "203.0.113.1") == [
        Entry(None, None, "LINX LON1"),
        Entry(64496, None, "LINX LON1"),
        Entry(64497, None, "AMS-IX"),
        Entry(),
    ]


def test_prefixes_alone_are_refused_since_they_have_no_names(tmp_path):
    message = fault(tmp_path, ixpfx={"data": IXPFX})

    assert lacks(message, "names of 2 exchanges", "ixpfx and ix") == []


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("195.66.224.0/21,x\n195.66.224.1/21,y\n", ["ixp:2: ", "host bits", "195.66.224.0/21"]),
        ("195.66.224.0/21\n", ["ixp:1: ", "no name", "prefix, name"]),
        ("195.66.224.0/21,x\nLINX,y\n", ["ixp:2: ", '"LINX"', "not a prefix"]),
        ('{"data": [\n{"prefix": }]}', ["ixp:2: ", "not JSON"]),
        ("", ["no prefixes"]),
        ("[]", ["no prefixes"]),
        ('[{"prefix": "x", "ixlan_id": 1, "name": 1}, {"id": 1, "name": "y"}]', ["PeeringDB", '"x"', "not a prefix"]),
    ],
)
def test_a_bad_list_is_refused_with_a_fix(tmp_path, content, facts):
    assert lacks(fault(tmp_path, ixp=content), *facts) == []


def test_an_id_that_is_no_number_is_refused_with_its_table(tmp_path):
    for odd in ([[1]], {}, "18", None, 1.5):
        refused = fault(tmp_path, ixpfx={"data": [{**IXPFX[0], "ixlan_id": odd}]}, ix={"data": IX})
        assert lacks(refused, "ixpfx", '"ixlan_id"', "not a number") == []


def test_names_in_a_dump_are_of_exchanges_and_nothing_else(tmp_path):
    others = {
        "org": {"data": [{"id": 18, "name": "An organisation"}]},
        "net": {"data": [{"id": 26, "name": "A network"}]},
    }
    dump = {"ix": {"data": IX}, "ixlan": {"data": IXLAN}, "ixpfx": {"data": IXPFX}, **others}

    assert entries(read(tmp_path, dump=dump), "195.66.224.1") == [Entry(None, None, "LINX LON1")]


def test_a_name_of_half_a_character_does_not_prevent_loading(tmp_path):
    text = json.dumps({"ix": [{"id": 18, "name": "LI\ud800NX"}], "ixlan": IXLAN[:1], "ixpfx": IXPFX[:1]})

    assert entries(read(tmp_path, dump=text), "195.66.224.1") == [Entry(None, None, "LI?NX")]


def test_json_of_too_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ixp_lists, "MOST_VALUES", 5)

    assert "more than 5 values" in fault(tmp_path, ix={"data": IX})
