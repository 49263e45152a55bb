"""Split routes into chains of parts.

Silent hops never join routes. A reserved address outside own networks may be several routers: before the first and
after the last public hop it belongs to that site.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network

from monitor.archive.queries.routes.mesh_routes import MeshRoute
from monitor.routes.places import HopName

EVERY_BLOCK = "*"
# Hops that did not reply, in a route in words.
UNKNOWN_HOPS = "(unknown)"
PREFIX_BITS = {4: 24, 6: 48}


class PartKind(StrEnum):
    """Kind of a part; a part's key begins with it."""

    SITE = "site"
    REGION = "region"
    AS = "as"
    NETWORK = "network"
    IXP = "ixp"
    PREFIX = "prefix"
    HOP = "hop"
    SILENT = "silent"


ENDS = (PartKind.SITE, PartKind.REGION)
BLOCKS = (PartKind.AS, PartKind.NETWORK, PartKind.IXP, PartKind.PREFIX)


@dataclass(frozen=True, slots=True)
class GraphPart:
    key: str
    kind: PartKind
    label: str
    detail: str = ""
    block: str | None = None  # key of the block that a hop is in
    address: str | None = None  # of a hop

    @property
    def words(self) -> str:
        return f"{self.label} {self.detail}".strip()


@dataclass(frozen=True, slots=True)
class Step:
    part: GraphPart
    after_gap: bool = False  # hops before it are unknown
    addresses: tuple[str, ...] = ()  # known hops there


@dataclass(frozen=True, slots=True)
class Ends:
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Chain:
    path_id: int
    ends: Ends
    steps: tuple[Step, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(step.part.key for step in self.steps)

    @property
    def words(self) -> str:
        between = self.steps[1:-1]
        words = [f"{UNKNOWN_HOPS} → {step.part.words}" if step.after_gap else step.part.words for step in between]
        return " → ".join([*words, UNKNOWN_HOPS] if words and self.steps[-1].after_gap else words)


@dataclass(frozen=True, slots=True)
class Places:
    names: Mapping[str, HopName]
    sites: Mapping[str, GraphPart]
    opened: Collection[str] = ()

    def is_open(self, block: str) -> bool:
        return block in self.opened or EVERY_BLOCK in self.opened


def chain(route: MeshRoute, ends: Ends, places: Places) -> Chain:
    """The chain of a route; without a trace to the destination it ends in a gap."""
    hops = route.hops[:-1] if route.reached else route.hops
    owners = _owners(hops, ends, places.names)
    steps = [Step(places.sites[ends.source])]
    silent = 0
    for ttl, (address, owner) in enumerate(zip(hops, owners, strict=True), 1):
        if address is None:
            silent += 1
            continue
        _extend(steps, _part(address, owner, places), address, silent, f"{route.route_id}:{ttl - 1}")
        silent = 0
    last = Step(places.sites[ends.destination], after_gap=bool(silent) or not route.reached)
    return Chain(route.path_id, ends, (*steps, last))


def _extend(steps: list[Step], part: GraphPart, address: str, silent: int, place: str) -> None:
    before = steps[-1].part
    if part.key == before.key:
        steps[-1] = Step(before, steps[-1].after_gap, (*steps[-1].addresses, address))
    elif silent and before.kind is PartKind.HOP and part.kind is PartKind.HOP:
        number = f"{silent} silent hop{'s' if silent > 1 else ''}"
        steps += [Step(GraphPart(f"{PartKind.SILENT}:{place}", PartKind.SILENT, number)), Step(part, False, (address,))]
    else:
        steps.append(Step(part, bool(silent), (address,)))


def _owners(hops: Sequence[str | None], ends: Ends, names: Mapping[str, HopName]) -> list[str]:
    public = [place for place, hop in enumerate(hops) if hop is not None and not _is_reserved(names[hop])]
    if not public:
        return [""] * len(hops)

    def owner(place: int, hop: str | None) -> str:
        if hop is None or not _is_reserved(names[hop]) or public[0] < place < public[-1]:
            return ""
        return ends.source if place < public[0] else ends.destination

    return [owner(place, hop) for place, hop in enumerate(hops)]


def _is_reserved(name: HopName) -> bool:
    return name.special is not None and name.network is None


def _part(address: str, owner: str, places: Places) -> GraphPart:
    block = block_of(address, places.names[address], owner)
    if not places.is_open(block.key):
        return block
    at_site = f"@{owner}" if owner else ""
    name = places.names[address]
    detail = name.host_name or (block.words if block.kind is not PartKind.PREFIX else "")
    return GraphPart(f"{PartKind.HOP}:{address}{at_site}", PartKind.HOP, address, detail, block.key, address)


def block_of(address: str, name: HopName, owner: str = "") -> GraphPart:
    """AS, else own network, exchange point or prefix."""
    if name.asn is not None:
        detail = name.as_name or name.network or ""
        return GraphPart(f"{PartKind.AS}:{name.asn}", PartKind.AS, f"AS {name.asn}", detail)
    if name.network is not None:
        return GraphPart(f"{PartKind.NETWORK}:{name.network}", PartKind.NETWORK, name.network)
    if name.ixp is not None:
        return GraphPart(f"{PartKind.IXP}:{name.ixp}", PartKind.IXP, name.ixp)
    family = 6 if ":" in address else 4
    prefix = str(ip_network((address, PREFIX_BITS[family]), strict=False))
    at_site = f"@{owner}" if owner else ""
    detail = f"at {owner}" if owner else ""
    return GraphPart(f"{PartKind.PREFIX}:{prefix}{at_site}", PartKind.PREFIX, prefix, detail)


def without_access(chains: Sequence[Chain], folded: Collection[str]) -> list[Chain]:
    """Leave out parts used only by a site folded into its region."""
    sites_of: dict[str, set[str]] = {}
    for row in chains:
        ends = {row.ends.source, row.ends.destination}
        for step in row.steps[1:-1]:
            sites_of[step.part.key] = sites_of.get(step.part.key, ends) & ends
    hidden = {key for key, sites in sites_of.items() if sites & set(folded)}
    return [Chain(row.path_id, row.ends, tuple(_without(row.steps, hidden))) for row in chains]


def _without(steps: Iterable[Step], hidden: set[str]) -> Iterable[Step]:
    gap = False
    for step in steps:
        gap = gap or step.after_gap
        if step.part.key not in hidden:
            yield Step(step.part, gap, step.addresses)
            gap = False
