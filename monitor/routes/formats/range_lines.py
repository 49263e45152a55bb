"""Read lines of address ranges; AS 0 is none.

CSV: first and last address, AS number, name (npm's @ip-location-db/asn), or prefix, AS number, name. TSV: first and
last address, AS number, country, name (iptoasn.com). A first line without addresses is a header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

from monitor.mesh.document.countries import CODES
from monitor.mesh.document.networks import LARGEST_ASN, parse_prefix
from monitor.routes.formats.table_file import FileFault
from monitor.routes.tables.address_table import Entry
from monitor.routes.tables.batches import packed_address
from monitor.routes.tables.building import RangeList

COMMA_FIX = "write first address, last address, AS number, name"
TAB_FIX = "write first address, last address, AS number, country, name, with tabs between"
# Name of AS 0 in the tables of iptoasn.com.
NOT_ROUTED = "Not routed"
LARGEST_DIGITS = len(str(LARGEST_ASN))
# One line after another: a list of all takes many times the bytes of a file of short lines.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n|(?<=[^\r\n])\Z)")


def read_lines(lines: Iterable[str], ranges: RangeList) -> None:
    """Raises `FileFault` with the first invalid line."""
    for number, text in enumerate(lines, 1):
        line = text.strip("\r\n")
        if not line.strip() or line.startswith("#"):
            continue
        fix = TAB_FIX if "\t" in line else COMMA_FIX
        try:
            fields = [field.strip() for field in split_line(line, fix)]
            is_header = number == 1 and not any(map(_is_address, fields[:2]))
            if not is_header:
                _add(fields, ranges, fix)
        except ValueError as error:
            raise FileFault(str(error), number) from None


def split_line(line: str, fix: str) -> list[str]:
    """Fields of CSV or TSV. Raises ValueError with `fix`."""
    if "\t" in line:
        return line.split("\t")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(f"is not CSV ({error}); {fix}") from None


def _is_address(text: str) -> bool:
    return packed_address(text.partition("/")[0]) is not None


def _add(fields: Sequence[str], ranges: RangeList, fix: str) -> None:
    if "/" in fields[0]:
        (family, first, last), others = _prefix(fields[0]), fields[1:]
    else:
        (family, first, last), others = _range(fields, fix), fields[2:]
    asn = _asn(others[0] if others else "", fix)
    has_country = fix == TAB_FIX and len(others) > 2
    country = others[1].upper() if has_country else ""
    name = others[-1] if len(others) > 1 and asn and others[-1] != NOT_ROUTED else ""
    if asn or country in CODES:
        ranges.add(family, first, last, Entry(asn or None, country if country in CODES else None, name or None))


def _prefix(text: str) -> tuple[int, int, int]:
    try:
        network = parse_prefix(text)
    except ValueError as error:
        raise ValueError(f'"{text}" {error}') from None
    return network.version, int(network[0]), int(network[-1])


def _range(fields: Sequence[str], fix: str) -> tuple[int, int, int]:
    if len(fields) < 3:
        raise ValueError(f"has {len(fields)} of at least 3 fields; {fix}")
    ends = [packed_address(text) for text in fields[:2]]
    for text, packed in zip(fields, ends, strict=False):
        if packed is None:
            raise ValueError(f'"{text}" is not an IP address; {fix}')
    first, last = (packed for packed in ends if packed is not None)
    if len(first) != len(last):
        raise ValueError(f"{fields[0]} and {fields[1]} are of different families; write a range of one family")
    if first > last:
        raise ValueError(f"{fields[0]} is after {fields[1]}; write the first address of the range first")
    return 4 if len(first) == 4 else 6, int.from_bytes(first, "big"), int.from_bytes(last, "big")


def _asn(text: str, fix: str) -> int:
    digits = text.upper().removeprefix("AS")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= LARGEST_DIGITS
    if not is_number or int(digits) > LARGEST_ASN + 1:
        raise ValueError(f'"{text}" is not an AS number; {fix}')
    return int(digits)


def decode_lines(content: bytes) -> Iterator[str]:
    """Raises `FileFault` with the line that is not UTF-8."""
    for number, line in enumerate(_LINE.finditer(content), 1):
        try:
            yield line[0].decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise FileFault("is not UTF-8 text; save the file as UTF-8", number) from None
