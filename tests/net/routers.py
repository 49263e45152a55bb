"""A path over real Linux routers, each in a namespace of its own:

    near — r1 — r2 ⟨ a | b ⟩ r4 — far

Link k has 10.8.k.0/24 and fd08:0:0:k::/64: host 1 at the end towards `near`, host 2 at the other. By default all goes
over a; `balance` spreads over a and b.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

LINKS = {
    1: ("near", "r1"),
    2: ("r1", "r2"),
    3: ("r2", "a"),
    4: ("r2", "b"),
    5: ("a", "r4"),
    6: ("b", "r4"),
    7: ("r4", "far"),
}
TOWARDS_FAR = {"near": 1, "r1": 2, "r2": 3, "a": 5, "b": 6, "r4": 7}
TOWARDS_NEAR = {"r1": 1, "r2": 2, "a": 3, "b": 4, "r4": 5, "far": 7}


def host(family: int, link: int, end: int) -> str:
    return f"10.8.{link}.{end}" if family == 4 else f"fd08:0:0:{link}::{end}"


ROUTE = {family: [host(family, link, 2) for link in (1, 2, 3, 5, 7)] for family in (4, 6)}
"""The hops from near to far: each router replies from its interface towards near."""
FAR = {family: ROUTE[family][-1] for family in (4, 6)}


@dataclass(frozen=True)
class Routers:
    prefix: str

    def command(self, place: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self.prefix}-{place}", *command]

    def at(self, place: str, *command: str) -> str:
        done = subprocess.run(self.command(place, *command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{place}: {' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def set(self, place: str, **settings: object) -> None:
        """Set sysctls; a double underscore stands for a dot."""
        for name, value in settings.items():
            self.at(place, "sysctl", "-qw", f"net.{name.replace('__', '.')}={value}")

    def route(self, place: str, family: int, *links: int, towards: str = "far") -> None:
        """The default route, or that to near, over one or more links."""
        end = 2 if towards == "far" else 1
        hops = [part for link in links for part in ("nexthop", "via", host(family, link, end))]
        single = ["via", host(family, links[0], end)] if len(links) == 1 else hops
        network = "default" if towards == "far" else f"{'10.8.1.0/24' if family == 4 else 'fd08:0:0:1::/64'}"
        self.at(place, "ip", f"-{family}", "route", "replace", network, *single)

    @contextmanager
    def balanced(self, family: int) -> Iterator[None]:
        """r2 spreads flows over a and b by addresses and ports."""
        self.set("r2", **{f"ipv{family}__fib_multipath_hash_policy": 1})
        self.route("r2", family, 3, 4)
        try:
            yield
        finally:
            self.route("r2", family, 3)

    @contextmanager
    def silent(self, place: str) -> Iterator[None]:
        """A router that tells nobody that a TTL ran out."""
        rules = (
            "table inet silent { chain output { type filter hook output priority 0;"
            " icmp type time-exceeded drop; icmpv6 type time-exceeded drop; }; }"
        )
        self.at(place, "nft", rules)
        try:
            yield
        finally:
            self.at(place, "nft", "delete table inet silent")


@contextmanager
def routers() -> Iterator[Routers]:
    path = Routers(f"trace-{secrets.token_hex(3)}")
    with ExitStack() as undo:
        for place in dict.fromkeys(place for ends in LINKS.values() for place in ends):
            subprocess.run(["ip", "netns", "add", f"{path.prefix}-{place}"], check=True)
            undo.callback(subprocess.run, ["ip", "netns", "delete", f"{path.prefix}-{place}"], check=False)
            path.set(place, ipv4__ip_forward=1, ipv6__conf__all__forwarding=1, ipv4__conf__all__rp_filter=0)
            # All routers reply to each probe, unless a test says otherwise.
            path.set(place, ipv4__icmp_ratelimit=0, ipv6__icmp__ratelimit=0)
            path.at(place, "ip", "link", "set", "lo", "up")
        for link, (near, far) in LINKS.items():
            path.at(
                near,
                "ip",
                "link",
                "add",
                f"l{link}",
                "type",
                "veth",
                "peer",
                f"l{link}",
                "netns",
                f"{path.prefix}-{far}",
            )
            for end, place in ((1, near), (2, far)):
                path.at(place, "ip", "address", "add", f"{host(4, link, end)}/24", "dev", f"l{link}")
                path.at(place, "ip", "address", "add", f"{host(6, link, end)}/64", "dev", f"l{link}", "nodad")
                path.at(place, "ip", "link", "set", f"l{link}", "up")
        for family in (4, 6):
            for place, link in TOWARDS_FAR.items():
                path.route(place, family, link)
            for place, link in TOWARDS_NEAR.items():
                if link != 1:
                    path.route(place, family, link, towards="near")
            _wait_for_reply(path, FAR[family])
        yield path


def _wait_for_reply(path: Routers, address: str) -> None:
    """Forwarding of IPv6 begins some time after its interfaces are up."""
    until = time.monotonic() + 20
    ping = path.command("near", "ping", "-c", "1", "-W", "1", address)
    while subprocess.run(ping, capture_output=True, check=False).returncode:
        assert time.monotonic() < until, f"{address} does not reply"


def python(path: Routers, place: str, *arguments: str) -> list[str]:
    return path.command(place, sys.executable, *arguments)
