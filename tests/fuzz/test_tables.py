"""Files of address ranges and of exchange points, broken at random: a table or a `FileFault`, nothing else."""

import gzip
import io
import json
import lzma
import tarfile
import zipfile

import zstandard

from monitor.routes.formats.as_tables import read_as_tables
from monitor.routes.formats.ixp_lists import read_ixp_lists
from monitor.routes.formats.table_file import FileFault
from tests import address_files
from tests.fuzz.cases import cases, mutated, odd

CSV = b'192.0.2.0,192.0.2.255,64496,"Example, Inc."\n2001:db8::,2001:db8::ffff,64498,Six\n'
TSV = b"192.0.2.0\t192.0.2.255\t64496\tUS\tEXAMPLE\n198.51.100.0\t198.51.100.127\t64497\tNone\tRESEAU\n"
PREFIXES = b"network,asn,name\n192.0.2.0/24,64496,Example\n2001:db8::/48,AS64498,Six\n"
PEERINGDB = {
    "ix": {"data": [{"id": 18, "name": "LINX LON1", "status": "ok"}, {"id": 26, "name": "AMS-IX"}]},
    "ixlan": {"data": [{"id": 18, "ix_id": 18, "name": "Main"}, {"id": 260, "ix_id": 26, "name": ""}]},
    "ixpfx": {
        "data": [
            {"id": 1, "ixlan_id": 18, "prefix": "195.66.224.0/21", "status": "ok"},
            {"id": 2, "ixlan_id": 260, "prefix": "2001:7f8:1::/64"},
        ]
    },
    "netixlan": {
        "data": [{"id": 7, "ixlan_id": 18, "name": "LINX", "asn": 64496, "ipaddr4": "195.66.224.10", "ipaddr6": None}]
    },
}
MAXMIND = [
    ("192.0.2.0/24", {"autonomous_system_number": 64496, "autonomous_system_organization": "Example"}),
    ("2001:db8::/32", {"asn": "AS64498", "name": "Six", "country": {"iso_code": "CH"}}),
]
NETWORKS = [("192.0.2.0/24", 64496, "CH"), ("2001:db8::/32", 64498, "DE")]


def _zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return file.getvalue()


def _tar(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("table.csv")
        info.size, info.mtime = len(content), 1_700_000_000
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


PACKINGS = (bytes, gzip.compress, lzma.compress, zstandard.compress, _zip, _tar)


def _is_read(read, path, label):
    """Whether the file gives a table; where it does not, its fault is a sentence."""
    fault = None
    try:
        read([path])
    except FileFault as error:
        fault = str(error)
    except Exception as error:
        raise AssertionError(f"{label}: {error!r}") from error
    assert fault is None or fault.count(" ") > 3, (label, fault)
    return fault is None


def test_broken_as_tables_are_read_or_refused(tmp_path):
    plain = (CSV, TSV, PREFIXES, address_files.mmdb(MAXMIND), address_files.libloc(NETWORKS, {64496: "Example"}))
    path, read = tmp_path / "table", 0
    for label, chance in cases("AS tables"):
        content = chance.choice(plain)
        inside, pack = chance.random() < 0.5, chance.choice(PACKINGS)
        path.write_bytes(pack(mutated(content, chance)) if inside else mutated(pack(content), chance))
        read += _is_read(read_as_tables, path, label)
    assert read > 0


def test_broken_lists_of_exchanges_are_read_or_refused(tmp_path):
    path, read = tmp_path / "table", 0
    for label, chance in cases("exchanges"):
        document = json.dumps(odd(PEERINGDB, chance)).encode()
        path.write_bytes(mutated(document, chance) if chance.random() < 0.3 else document)
        read += _is_read(read_ixp_lists, path, label)
    assert read > 0
