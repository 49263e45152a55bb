"""Describes the end of a trace that did not reach its destination. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from probes.trace.spec import Hop

LEAST_REPEATS = 2
# A router at two hops in a row may have been seen twice because the route changed meanwhile.
LEAST_REPEATS_OF_ONE = 3
MOST_NAMED = 4


def not_reached_text(hops: Sequence[Hop], lost: int) -> str:
    """Describe a routing loop, else the lost packets."""
    loop = routing_loop([hop.address for hop in hops])
    if loop is not None:
        first_ttl, routers = loop
        return f"not reached: routing loop from hop {first_ttl} on, {_in_turn(routers)}"
    if hops and not lost:
        return f"not reached within {hops[-1].ttl} hops, which all replied"
    where = f"after hop {hops[-1].ttl}" if hops else "at all hops"
    return f"not reached: {lost} of {lost} packets lost {where}"


def routing_loop(routers: Sequence[str | None]) -> tuple[int, list[str | None]] | None:
    """Find a loop's first TTL and its routers.

    `routers` start at TTL 1, None where silent.
    """
    for length in range(1, len(routers) // 2 + 1):
        start = _start_of_loop(routers, length)
        pairs = zip(routers[start:], routers[start + length :], strict=False)
        repeats = sum(here is not None and here == there for here, there in pairs)
        if repeats >= (LEAST_REPEATS_OF_ONE if length == 1 else max(length, LEAST_REPEATS)):
            places = [routers[index::length] for index in range(start, start + length)]
            return start + 1, [next(filter(None, at_place), None) for at_place in places]
    return None


def _start_of_loop(routers: Sequence[str | None], length: int) -> int:
    router_at: dict[int, str] = {}
    start = len(routers)
    for index in range(len(routers) - 1, -1, -1):
        router = routers[index]
        if router is not None and router_at.setdefault(index % length, router) != router:
            break
        start = index
    # A router ahead of the loop may stand at the place of a silent one.
    while start < len(routers) and (routers[start] is None or routers[start] not in routers[start + length :: length]):
        start += 1
    return start


def _in_turn(routers: Sequence[str | None]) -> str:
    names = [router or "a silent router" for router in routers[:MOST_NAMED]]
    if len(routers) == 1:
        return f"at each hop {names[0]}"
    if len(routers) > MOST_NAMED:
        return f"{', '.join(names)} and {len(routers) - MOST_NAMED} more in turn"
    return f"{', '.join(names[:-1])} and {names[-1]} in turn"
