"""Files of AS ranges: each format is recognised by content and read; invalid ones are refused with line and fix."""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from monitor.routes.formats import mmdb, unpacking
from monitor.routes.formats.as_tables import read_as_tables, read_binary
from monitor.routes.formats.table_file import FileFault
from monitor.routes.formats.unpacking import Member
from monitor.routes.tables import building
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.batches import AddressBatch
from tests import address_files
from tests.facts import lacks

CSV = """\
192.0.2.0,192.0.2.255,64496,"Example, Inc."
198.51.100.0,198.51.100.127,64497,Réseau
2001:db8::,2001:db8:0:ffff:ffff:ffff:ffff:ffff,64498,Six
"""
TSV = """\
0.0.0.0\t0.255.255.255\t0\tNone\tNot routed
192.0.2.0\t192.0.2.255\t64496\tUS\tEXAMPLE
198.51.100.0\t198.51.100.127\t64497\tNone\tRESEAU - FR
2001:db8::\t2001:db8:0:ffff:ffff:ffff:ffff:ffff\t64498\tCH\tSIX
"""
PREFIXES = """\
network,autonomous_system_number,autonomous_system_organization
192.0.2.0/24,64496,"Example, Inc."
198.51.100.0/25,64497,Réseau
2001:db8::/48,64498,Six
"""


def read(tmp_path, content, name="table"):
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_as_tables([file])


def entries(contents, *addresses):
    return [contents.table.entry(number) for number in contents.table.find(AddressBatch.parse(addresses)).tolist()]


def fault(tmp_path, content, name="table"):
    with pytest.raises(FileFault) as raised:
        read(tmp_path, content, name)
    return str(raised.value)


@pytest.mark.parametrize("text", [CSV, PREFIXES, "\ufeff" + CSV, CSV.replace("\n", "\r\n")])
def test_csv_of_ranges_or_prefixes_is_read(tmp_path, text):
    contents = read(tmp_path, text)

    assert entries(
        contents, "192.0.2.0", "192.0.2.255", "192.0.3.0", "198.51.100.127", "2001:db8:0:1::", "9.9.9.9"
    ) == [
        Entry(64496, None, "Example, Inc."),
        Entry(64496, None, "Example, Inc."),
        Entry(),
        Entry(64497, None, "Réseau"),
        Entry(64498, None, "Six"),
        Entry(),
    ]
    assert (contents.source, contents.table.range_counts) == ("table", (2, 1))


def test_tsv_of_ranges_has_countries_and_no_as_0(tmp_path):
    assert entries(read(tmp_path, TSV), "0.1.2.3", "192.0.2.7", "198.51.100.1", "2001:db8::1") == [
        Entry(),
        Entry(64496, "US", "EXAMPLE"),
        Entry(64497, None, "RESEAU - FR"),
        Entry(64498, "CH", "SIX"),
    ]


def zipped(content, name="GeoLite2/Blocks-IPv4.csv"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("GeoLite2/LICENSE.txt", "text")
        archive.writestr(zipfile.ZipInfo(name, (2026, 6, 17, 0, 0, 0)), content)
    return file.getvalue()


def packaged(content):
    """As `npm pack` writes it: dated 1985, with the same table in numbers."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in (("package/asn-num.csv", b"3221225984,3221226239,64496,x\n"), ("package/asn.csv", content)):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 499_162_500
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstandard.compress, zipped, packaged])
def test_a_compressed_file_is_read_whatever_its_name(tmp_path, compress):
    assert entries(read(tmp_path, compress(CSV.encode())), "192.0.2.7")[0].asn == 64496


def test_the_date_is_that_of_the_file_or_of_the_data(tmp_path):
    csv = tmp_path / "asn.csv"
    csv.write_text(CSV)
    changed_at = datetime.fromtimestamp(csv.stat().st_mtime, UTC)
    built_at = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)  # 1,600,000,000 s

    assert read_as_tables([csv]).dated_at == changed_at
    assert read(tmp_path, zipped(CSV.encode()), "a.zip").dated_at == datetime(2026, 6, 17, tzinfo=UTC)
    assert read(tmp_path, packaged(CSV.encode()), "a.tgz").dated_at is None
    assert read(tmp_path, LIBLOC).dated_at == built_at
    assert read(tmp_path, address_files.mmdb([("192.0.2.0/24", SYSTEM)])).dated_at == built_at


def test_files_of_both_families_make_a_table(tmp_path):
    ipv4, ipv6 = tmp_path / "v4.csv", tmp_path / "v6.csv"
    ipv4.write_text("192.0.2.0,192.0.2.255,64496,x\n")
    ipv6.write_text("2001:db8::,2001:db8::ffff,64498,y\n")

    contents = read_as_tables([ipv4, ipv6])

    assert contents.source == "v4.csv, v6.csv"
    assert [entry.asn for entry in entries(contents, "192.0.2.1", "2001:db8::1")] == [64496, 64498]


def test_the_smallest_of_overlapping_ranges_counts(tmp_path):
    lines = [
        "192.0.2.0,192.0.2.255,1,whole",
        "192.0.2.64,192.0.2.127,2,inner",
        "192.0.2.64,192.0.2.127,3,again",
        "192.0.2.100,192.0.2.139,4,across",
    ]
    for order in (lines, lines[::-1]):
        contents = read(tmp_path, "\n".join(order))
        inner = 2 if order is lines else 3
        assert [
            entry.asn
            for entry in entries(contents, *(f"192.0.2.{last}" for last in (0, 63, 64, 99, 100, 127, 139, 140, 255)))
        ] == [1, 1, inner, inner, 4, 4, 4, 1, 1]


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("192.0.2.0,192.0.2.x,64496,x", ["192.0.2.x", "not an IP address", "first address, last address"]),
        ("192.0.2.9,192.0.2.1,64496,x", ["192.0.2.9", "after 192.0.2.1"]),
        ("192.0.2.0,2001:db8::,64496,x", ["different families"]),
        ("192.0.2.0,192.0.2.1,ASX,x", ['"ASX"', "not an AS number"]),
        ("192.0.2.0,192.0.2.1,4294967296,x", ["4294967296", "not an AS number"]),
        ("192.0.2.0,192.0.2.1", ["has 2 of at least 3 fields"]),
        ("192.0.2.1/24,64496,x", ["192.0.2.1/24", "host bits", "192.0.2.0/24"]),
        ('192.0.2.0,192.0.2.1,64496,"x', ["not CSV"]),
        ("192.0.2.0\t192.0.2.1\tNone\tUS\tx", ["None", "tabs"]),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_a_fix(tmp_path, line, facts):
    message = fault(tmp_path, f"{CSV}{line}\n{CSV}")

    assert message.startswith(f"{tmp_path}/table:4: ")
    assert lacks(message, *facts) == []


def test_a_bad_line_in_an_archive_names_the_file_in_it(tmp_path):
    assert fault(tmp_path, zipped(b"192.0.2.0,192.0.2.1,64496,x\nx,y,z\n")).startswith("GeoLite2/Blocks-IPv4.csv:2: ")


def test_text_that_is_not_utf_8_is_reported_with_its_line(tmp_path):
    message = fault(tmp_path, CSV.encode().replace("é".encode(), b"\xe9"))

    assert message.startswith(f"{tmp_path}/table:2: ")
    assert "UTF-8" in message


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "no ranges"),
        (b"first,last,asn\n", "no ranges"),
        (gzip.compress(CSV.encode())[:-20], "incomplete"),
        (lzma.compress(CSV.encode())[:-20], "incomplete"),
        (zipped(CSV.encode())[:-30], "incomplete"),
        (zipped(CSV.encode(), "readme.txt"), "no file .csv"),
        (bz2.compress(CSV.encode()), "UTF-8"),
        (bytes(range(256)) * 40, "UTF-8"),
    ],
    ids=["empty", "head only", "gzip", "xz", "zip", "zip of text", "bzip2", "bytes"],
)
def test_a_file_without_a_table_is_refused(tmp_path, content, fact):
    assert fact in fault(tmp_path, content)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileFault) as raised:
        read_as_tables([tmp_path / "missing.csv"])

    assert lacks(str(raised.value), "missing.csv", "No such file") == []


NETWORKS = [
    ("192.0.0.0/16", 64496, "US"),
    ("192.0.2.0/24", 64497, "CH"),
    ("192.0.2.128/25", 0, "DE"),
    ("198.51.100.7/32", 64498, "EU"),
    ("2001:db8::/32", 64496, "US"),
    ("2001:db8:1::/48", 64497, "CH"),
]
NAMES = {64496: "EXAMPLE", 64497: "RÉSEAU"}
LIBLOC = address_files.libloc(NETWORKS, NAMES)
SYSTEM = {"autonomous_system_number": 64496, "autonomous_system_organization": "Example, Incorporated, of São Paulo"}


def test_libloc_names_the_smallest_network(tmp_path):
    contents = read(tmp_path, LIBLOC)

    assert entries(
        contents,
        *("192.0.0.1", "192.0.2.1", "192.0.2.129", "192.0.3.0", "198.51.100.7", "198.51.100.8"),
        *("2001:db8::1", "2001:db8:1::1", "2001:db8:2::1", "2001:db9::1", "::1"),
    ) == [
        Entry(64496, "US", "EXAMPLE"),
        Entry(64497, "CH", "RÉSEAU"),
        Entry(None, "DE", None),
        Entry(64496, "US", "EXAMPLE"),
        Entry(64498, None, None),
        Entry(),
        Entry(64496, "US", "EXAMPLE"),
        Entry(64497, "CH", "RÉSEAU"),
        Entry(64496, "US", "EXAMPLE"),
        Entry(),
        Entry(),
    ]
    assert (contents.source, contents.licence) == ("libloc database of Test Vendor", "Test Licence")


@pytest.mark.parametrize("size", [8, 60, 4300, len(LIBLOC) - 40])
def test_an_incomplete_libloc_database_is_refused(tmp_path, size):
    assert "incomplete" in fault(tmp_path, LIBLOC[:size])


def test_an_unknown_version_of_libloc_is_refused(tmp_path):
    assert "version 2" in fault(tmp_path, address_files.libloc(NETWORKS, NAMES, version=2))


@pytest.mark.skipif(shutil.which("location") is None, reason="needs Debian's package location")
def test_libloc_itself_reads_our_database_alike(tmp_path):
    """Debian's `location` has the same AS, by a database that is written here."""
    file = tmp_path / "database.db"
    file.write_bytes(LIBLOC)
    contents = read(tmp_path, LIBLOC)
    addresses = ["192.0.0.1", "192.0.2.1", "192.0.3.0", "198.51.100.7", "2001:db8:1::1", "2001:db8:2::1"]

    printed = {
        address: subprocess.run(
            ["location", "--database", str(file), "lookup", address], capture_output=True, text=True, check=True
        ).stdout
        for address in addresses
    }

    for address, entry in zip(addresses, entries(contents, *addresses), strict=True):
        assert f"AS{entry.asn}" in printed[address]


MAXMIND = [
    ("192.0.2.0/25", SYSTEM),
    ("192.0.2.128/26", {"asn": "AS64497", "as_name": "Réseau", "country_code": "CH"}),
    ("198.51.100.7/32", {"autonomous_system_number": 64498, "country": {"iso_code": "DE"}}),
    ("2001:db8::/32", SYSTEM),
]


@pytest.mark.parametrize("record_bits", [24, 28, 32])
def test_maxmind_databases_are_read(tmp_path, record_bits):
    contents = read(tmp_path, address_files.mmdb(MAXMIND, record_bits=record_bits))

    name = "Example, Incorporated, of São Paulo"
    assert entries(contents, "192.0.2.1", "192.0.2.129", "192.0.2.192", "198.51.100.7", "2001:db8::1", "2001::1") == [
        Entry(64496, None, name),
        Entry(64497, "CH", "Réseau"),
        Entry(),
        Entry(64498, "DE", None),
        Entry(64496, None, name),
        Entry(),
    ]
    assert contents.source == "MaxMind database Test-ASN"


def test_maxmind_databases_of_ipv4_alone_are_read(tmp_path):
    contents = read(tmp_path, address_files.mmdb(MAXMIND[:3], ip_version=4))

    assert [entry.asn for entry in entries(contents, "192.0.2.1", "198.51.100.7", "198.51.100.8")] == [
        64496,
        64498,
        None,
    ]


def test_aliases_of_ipv4_in_maxmind_databases_are_left_out(tmp_path):
    """2002:c000:0200::/40 would be 192.0.2.0/24 again."""
    aliased = read(tmp_path, address_files.mmdb(MAXMIND, aliases=["2002::/16", "::ffff:0:0/96"]))

    assert [entry.asn for entry in entries(aliased, "192.0.2.1", "2002:c000:0201::1")] == [64496, None]
    assert aliased.table.range_counts == read(tmp_path, address_files.mmdb(MAXMIND)).table.range_counts


def test_a_maxmind_database_without_as_numbers_is_refused(tmp_path):
    assert "no AS numbers" in fault(tmp_path, address_files.mmdb([("192.0.2.0/24", {"country": "CH"})]))


def test_an_incomplete_maxmind_database_is_refused(tmp_path):
    content = address_files.mmdb(MAXMIND)
    for size in range(0, len(content) - 60, 97):
        assert "incomplete" in fault(tmp_path, content[size + 1 :])


def test_a_database_is_loaded_alone(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.db"]
    files[0].write_text(CSV)
    files[1].write_bytes(LIBLOC)

    with pytest.raises(FileFault, match="alone"):
        read_as_tables(files)


@given(st.data())
def test_a_damaged_database_is_read_or_refused(data):
    """Never another exception, and no endless loop."""
    content = bytearray(data.draw(st.sampled_from([LIBLOC[:120] + LIBLOC[4000:], LIBLOC, address_files.mmdb(MAXMIND)])))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(
            st.integers(0, len(content) - 5) | st.integers(8, 90) | st.integers(len(content) - 200, len(content) - 5)
        )
        content[place : place + 4] = data.draw(st.binary(min_size=4, max_size=4))
    try:
        contents = read_binary(Member("file", bytes(content), None))
    except FileFault:
        return
    assert contents is None or len(contents.table.asns) > 0


def zip_of(files, date_time=(2026, 3, 1, 0, 0, 0)):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, date_time), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def test_a_date_in_an_archive_that_is_none_counts_as_unknown(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("table.csv")
        info.size, info.mtime = len(CSV.encode()), 10**13
        archive.addfile(info, io.BytesIO(CSV.encode()))

    for content in (zip_of({"table.csv": CSV}, (2026, 15, 1, 0, 0, 0)), tar.getvalue()):
        assert read(tmp_path, content).dated_at is None


@pytest.fixture
def a_small_limit(monkeypatch):
    monkeypatch.setattr(unpacking, "LARGEST_BYTES", 1 << 20)


@pytest.mark.usefixtures("a_small_limit")
def test_the_limit_of_size_counts_in_all_members_together(tmp_path):
    part = bytes(300_000)

    assert "more than 1 MB" in fault(tmp_path, zip_of({f"{number}.csv": part for number in range(5)}))


@pytest.mark.usefixtures("a_small_limit")
def test_the_limit_of_size_counts_in_all_files_together(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        file.write_bytes(bytes(600_000))

    with pytest.raises(FileFault, match=r"b\.csv.*more than 1 MB"):
        read_as_tables(files)


@pytest.mark.usefixtures("a_small_limit")
def test_a_file_without_an_end_is_refused():
    with pytest.raises(FileFault, match="more than 1 MB"):
        read_as_tables([Path("/dev/zero")])


def test_an_archive_of_too_many_files_is_refused(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for number in range(1001):
            archive.addfile(tarfile.TarInfo(f"{number}.csv"))

    for content in (zip_of({f"{number}.csv": b"" for number in range(1001)}), tar.getvalue()):
        assert "more than 1000 files" in fault(tmp_path, content)


def test_a_file_that_is_compressed_again_and_again_is_refused(tmp_path):
    content = CSV.encode()
    for _ in range(4):
        content = gzip.compress(content)

    assert "more than 3 times" in fault(tmp_path, content)


def test_a_table_of_too_many_ranges_is_refused_at_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "MOST_RANGES", 2)

    assert lacks(fault(tmp_path, CSV), "table:3:", "2 ranges") == []


def test_pointers_that_multiply_values_are_refused_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(mmdb, "MOST_VALUES", 10_000)
    # An array of two pointers to an array of two pointers, and so on: 2^30 values of 150 bytes.
    layers = b"".join(bytes([0x02, 0x04, 0x20, at, 0x20, at]) for at in range(6, 186, 6))
    metadata = layers + bytes([0x01, 0x04, 0xA0])

    assert "incomplete" in fault(tmp_path, mmdb.MARKER + metadata)


def test_a_number_of_thousands_of_digits_is_no_as_number(tmp_path):
    assert "is not an AS number; write" in fault(tmp_path, f"192.0.2.0,192.0.2.255,{'9' * 5000},x\n")


def test_lines_end_as_in_files_of_any_system(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        contents = read(tmp_path, CSV.replace("\n", end))
        assert len(contents.table.asns) == 4
