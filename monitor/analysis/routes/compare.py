"""Compare routes of a path, where a silent hop is unknown and no difference.

In and out: a `Route`, the addresses of its hops in order of TTL, None where no router replied. A trace that did not
reach the destination knows the beginning of its route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class RouteHops:
    """A route: `hops[0]` is the router at TTL 1; the last hop is the destination where it was `reached`."""

    hops: tuple[str | None, ...]
    reached: bool

    @property
    def is_unknown(self) -> bool:
        """Whether not a single hop is known."""
        return not self.reached and not any(self.hops)


def is_compatible(first: RouteHops, second: RouteHops) -> bool:
    """Whether both may be the same route: no TTL has two addresses, and the destination is at one TTL only."""
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
    """The route with the hops that either of two compatible routes knows. Raises `ValueError` for others."""
    if not is_compatible(first, second):
        raise ValueError(f"{first} and {second} are different routes")
    hops = tuple(address if address is not None else other for address, other in zip_longest(first.hops, second.hops))
    return RouteHops(hops, first.reached or second.reached)


def trimmed(hops: Sequence[str | None], *, reached: bool) -> RouteHops:
    """The route of a trace: without the silent hops at its end, where it did not reach the destination."""
    end = len(hops)
    while not reached and end and hops[end - 1] is None:
        end -= 1
    return RouteHops(tuple(hops[:end]), reached)
