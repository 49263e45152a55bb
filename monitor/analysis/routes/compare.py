"""Compare routes of a path; a silent hop is unknown, no difference. A trace that ended early knows the beginning of its
route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class RouteHops:
    """A route: `hops[0]` is the router at TTL 1, None where silent."""

    hops: tuple[str | None, ...]
    reached: bool  # the last hop is the destination

    @property
    def is_unknown(self) -> bool:
        return not self.reached and not any(self.hops)


def is_compatible(first: RouteHops, second: RouteHops) -> bool:
    """Whether both may be the same route: no TTL has two addresses, the destination a single TTL."""
    if first.reached and second.reached:
        if len(first.hops) != len(second.hops):
            return False
    elif first.reached or second.reached:
        whole, part = (first, second) if first.reached else (second, first)
        if len(whole.hops) < len(part.hops):
            return False
    return all(
        left is None or right is None or left == right for left, right in zip(first.hops, second.hops, strict=False)
    )


def merge(first: RouteHops, second: RouteHops) -> RouteHops:
    """Merge two compatible routes. Raises `ValueError` for others."""
    if not is_compatible(first, second):
        raise ValueError(f"{first} and {second} are different routes")
    hops = tuple(address if address is not None else other for address, other in zip_longest(first.hops, second.hops))
    return RouteHops(hops, first.reached or second.reached)


def trimmed(hops: Sequence[str | None], *, reached: bool) -> RouteHops:
    """The route of a trace without trailing silent hops, if it did not reach the destination."""
    end = len(hops)
    while not reached and end and hops[end - 1] is None:
        end -= 1
    return RouteHops(tuple(hops[:end]), reached)
