"""Small databases of AS numbers in the formats of libloc and MaxMind, written by their published formats."""

import struct
from ipaddress import IPv6Address, ip_network

LIBLOC_HEADER = 8 + 8 + 12 + 40 + 4 + 2 * 2048 + 32
MAPPED = int(IPv6Address("::ffff:0:0"))


class Tree:
    """Binary trie: `nodes` are [child of bit 0, child of bit 1, value], None where there is none."""

    def __init__(self, networks, ipv4_at):
        self.nodes = [[None, None, None]]
        for prefix, value in networks:
            network = ip_network(prefix)
            is_ipv4 = network.version == 4
            number = ipv4_at | int(network[0]) if is_ipv4 else int(network[0])
            length = network.prefixlen + (96 if is_ipv4 else 0)
            self.add([number >> (127 - bit) & 1 for bit in range(length)], value)

    def add(self, bits, value, end=None):
        """Give the node after these bits a value; or let the last bit lead to the node `end`."""
        node = 0
        for place, bit in enumerate(bits):
            if end is not None and place == len(bits) - 1:
                self.nodes[node][bit] = end
                return
            if self.nodes[node][bit] is None:
                self.nodes.append([None, None, None])
                self.nodes[node][bit] = len(self.nodes) - 1
            node = self.nodes[node][bit]
        self.nodes[node][2] = value


def libloc(networks, names, *, created_at=1_600_000_000, version=1):
    """A libloc database. `networks`: prefix, AS number (0 for none), country; `names`: by AS number."""
    pool = bytearray(b"\0")

    def text(string):
        pool.extend(string.encode() + b"\0")
        return len(pool) - len(string.encode()) - 1

    vendor, licence = text("Test Vendor"), text("Test Licence")
    systems = b"".join(struct.pack(">II", asn, text(name)) for asn, name in sorted(names.items()))
    rows = b"".join(struct.pack(">2s2xIH2x", country.encode(), asn, 0) for _, asn, country in networks)
    tree = Tree([(prefix, row) for row, (prefix, _, _) in enumerate(networks)], MAPPED)
    nodes = b"".join(
        struct.pack(">III", low or 0, high or 0, 0xFFFFFFFF if row is None else row) for low, high, row in tree.nodes
    )
    parts, at = [], LIBLOC_HEADER
    for part in (systems, rows, nodes, b"", bytes(pool)):
        parts += [at, len(part)]
        at += len(part)
    header = struct.pack(">7sBQ3I10I", b"LOCDBXX", version, created_at, vendor, 0, licence, *parts)
    return header.ljust(LIBLOC_HEADER, b"\0") + systems + rows + nodes + bytes(pool)


def _encoded(value):
    """A value of a MaxMind database."""
    if isinstance(value, str):
        return _sized(2, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        return _sized(7, len(value)) + b"".join(_encoded(part) for item in value.items() for part in item)
    content = value.to_bytes(4, "big").lstrip(b"\0")
    return _sized(6, len(content)) + content


def _sized(kind, size):
    """Control byte, with a byte for the size where it is 29 or more."""
    return bytes([kind << 5 | size]) if size < 29 else bytes([kind << 5 | 29, size - 29])


def mmdb(networks, *, record_bits=24, ip_version=6, aliases=(), built_at=1_600_000_000):
    """A MaxMind database. `networks`: prefix and its map, not nested; `aliases`: IPv6 prefixes that lead to IPv4."""
    section, offsets = bytearray(), {}
    for prefix, value in networks:
        offsets[prefix] = len(section)
        section += _encoded(value)
    tree = Tree([(prefix, prefix) for prefix, _ in networks], 0)
    first = 0
    for _ in range(96):
        first = tree.nodes[first][0]
    for alias in aliases:
        network = ip_network(alias)
        tree.add([int(network[0]) >> (127 - bit) & 1 for bit in range(network.prefixlen)], None, first)
    kept = range(first if ip_version == 4 else 0, len(tree.nodes))
    numbers = {index: number for number, index in enumerate(i for i in kept if tree.nodes[i][2] is None)}
    count = len(numbers)

    def record(child):
        if child is None:
            return count
        value = tree.nodes[child][2]
        return numbers[child] if value is None else count + 16 + offsets[value]

    records = [[record(low), record(high)] for low, high, _ in map(tree.nodes.__getitem__, numbers)]
    packed = b"".join(_node(low, high, record_bits) for low, high in records)
    metadata = {
        "node_count": count,
        "record_size": record_bits,
        "ip_version": ip_version,
        "database_type": "Test-ASN",
        "build_epoch": built_at,
    }
    return packed + bytes(16) + bytes(section) + b"\xab\xcd\xefMaxMind.com" + _encoded(metadata)


def _node(low, high, record_bits):
    if record_bits == 28:
        middle = bytes([low >> 24 << 4 | high >> 24])
        return (low & 0xFFFFFF).to_bytes(3, "big") + middle + (high & 0xFFFFFF).to_bytes(3, "big")
    size = record_bits // 8
    return low.to_bytes(size, "big") + high.to_bytes(size, "big")
