"""Lookups in a table of address ranges agree with a search through all ranges."""

import ipaddress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.routes.special_ranges import special_ranges
from monitor.routes.tables.address_table import Entry, pack, unpack
from monitor.routes.tables.batches import AddressBatch, canonical_address
from monitor.routes.tables.building import RangeList, build

TOPS = {4: 2**32 - 1, 6: 2**128 - 1}


def entries_of(table, addresses):
    return [table.entry(number) for number in table.find(AddressBatch.parse(addresses)).tolist()]


def naive(ranges, family, address):
    """Of the ranges with the address the smallest, of equal ones the first."""
    matching = [
        (last - first, order, entry)
        for order, (of, first, last, entry) in enumerate(ranges)
        if of == family and first <= address <= last
    ]
    return min(matching, key=lambda match: match[:2])[2] if matching else Entry()


def make_table(ranges):
    listed = RangeList()
    for family, first, last, entry in ranges:
        listed.add(family, first, last, entry)
    return listed.table()


@st.composite
def any_ranges(draw):
    """Ranges that are close together, so that they overlap, at both ends of the address space too."""
    ranges = []
    for _ in range(draw(st.integers(0, 12))):
        family = draw(st.sampled_from([4, 6]))
        base = draw(st.sampled_from([0, 2**31, 2**64 - 20 if family == 6 else 2**24, TOPS[family] - 40]))
        first = base + draw(st.integers(0, 30))
        last = min(first + draw(st.integers(0, 20)), TOPS[family])
        entry = Entry(
            draw(st.integers(1, 5)), draw(st.sampled_from([None, "CH", "US"])), draw(st.sampled_from([None, "é"]))
        )
        ranges.append((family, first, last, entry))
    return ranges


@given(any_ranges())
def test_a_lookup_agrees_with_a_search_of_all_ranges(ranges):
    table = unpack(pack(make_table(ranges)))
    edges = {
        (family, address)
        for family, first, last, _ in ranges
        for address in (first - 1, first, (first + last) // 2, last, last + 1)
        if 0 <= address <= TOPS[family]
    } | {(4, 0), (6, 0), (4, TOPS[4]), (6, TOPS[6])}
    # An IPv4 address in IPv6 form counts as IPv4.
    edges = [(family, address) for family, address in sorted(edges) if family == 4 or address >> 32 != 0xFFFF]
    texts = [
        str(ipaddress.IPv4Address(address) if family == 4 else ipaddress.IPv6Address(address))
        for family, address in edges
    ]

    assert entries_of(table, texts) == [naive(ranges, family, address) for family, address in edges]


def test_an_empty_table_knows_no_address():
    table = make_table([])

    assert entries_of(table, ["192.0.2.1", "2001:db8::1"]) == [Entry(), Entry()]
    assert (table.range_counts, table.as_count) == ((0, 0), 0)
    assert entries_of(table, []) == []


def test_text_that_is_no_address_is_unknown():
    table = make_table([(4, 0, TOPS[4], Entry(1)), (6, 0, TOPS[6], Entry(2))])

    assert entries_of(table, ["", "?", "192.0.2", "router.example", "1.2.3.4\0", "::g"]) == [Entry()] * 6
    assert [entry.asn for entry in entries_of(table, ["::ffff:192.0.2.1", "fe80::1%eth0", "192.0.2.1"])] == [1, 2, 1]


def test_neighbours_of_an_as_are_a_single_range():
    table = make_table([(4, 0, 9, Entry(1)), (4, 10, 19, Entry(1)), (4, 30, 39, Entry(2, "CH", "two"))])

    assert table.range_counts == (2, 0)
    assert table.as_count == 2
    assert (table.label_of_as(2), table.label_of_as(1), table.label_of_as(3)) == ("two", None, None)


def test_half_a_million_ranges_take_less_than_15_mb():
    """Of the shape of the public tables: 380,000 ranges of IPv4, 120,000 of IPv6, 90,000 names of 25 bytes."""
    counts, names = {4: 380_000, 6: 120_000}, 90_000
    entries = [Entry(), *(Entry(asn, "CH", f"Network of the customer {asn}") for asn in range(1, names + 1))]
    starts = {4: np.arange(counts[4], dtype=np.uint32) * 9000, 6: np.arange(counts[6]).astype("S16")}

    table = build(*((starts[family], np.arange(counts[family]) % names) for family in (4, 6)), entries)

    assert sum(table.range_counts) > 499_000
    assert table.size_bytes < 15e6


@pytest.mark.parametrize(
    ("address", "purpose"),
    [
        ("10.1.2.3", "private (RFC 1918)"),
        ("172.31.255.255", "private (RFC 1918)"),
        ("172.32.0.0", None),
        ("192.168.0.1", "private (RFC 1918)"),
        ("100.100.0.1", "shared, carrier-grade NAT (RFC 6598)"),
        ("198.51.100.7", "documentation (RFC 5737)"),
        ("255.255.255.255", "broadcast (RFC 919)"),
        ("fd00::1", "private (RFC 4193)"),
        ("2001:db8::1", "documentation (RFC 3849)"),
        ("fe80::1%eth0", "link-local (RFC 4291)"),
        ("8.8.8.8", None),
        ("2001:1458::1", None),
    ],
)
def test_a_special_range_is_named_with_its_rfc(address, purpose):
    assert [entry.label for entry in entries_of(special_ranges(), [address])] == [purpose]


def test_an_address_has_a_single_spelling():
    assert canonical_address("2001:DB8:0::1") == canonical_address("2001:db8::1%eth0") == "2001:db8::1"
    assert canonical_address("::ffff:192.0.2.1") == "192.0.2.1"
    assert canonical_address("*") == "*"
