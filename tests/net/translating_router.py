"""Three sites behind a router that translates addresses, and a host outside, in network namespaces:

    home   10.9.1.2 ─────────────────────┐
    office 10.9.2.2 ─────────────────────┤ router 203.0.113.1 (home), .2 (office), .3 (cafe) — outside 203.0.113.10
    cafe   10.9.3.2 ── flat 100.64.0.2 ──┘

Nothing comes in but answers, and for the office UDP port 862 and TCP port 5201. The packets of the cafe are translated
twice, as at a provider that shares addresses, whose router also answers no ping to the shared address. Outside knows no
private address.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.net.three_namespaces import run

HOME, OFFICE, CAFE, OUTSIDE = "203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.10"
"""At which the Internet sees them."""
RULES = """
table ip translation {
    chain out {
        type nat hook postrouting priority srcnat
        oifname "wan0" ip saddr 10.9.1.2 snat to 203.0.113.1
        oifname "wan0" ip saddr 10.9.2.2 snat to 203.0.113.2
        oifname "wan0" ip saddr 100.64.0.2 snat to 203.0.113.3
    }
    chain in {
        type nat hook prerouting priority dstnat
        iifname "wan0" ip daddr 203.0.113.2 udp dport 862 dnat to 10.9.2.2
        iifname "wan0" ip daddr 203.0.113.2 tcp dport 5201 dnat to 10.9.2.2
    }
}
table ip firewall {
    chain passing {
        type filter hook forward priority filter
        policy drop
        ct state established,related accept
        iifname { "home", "office", "flat" } accept
        ct status dnat accept
    }
    chain to_router {
        type filter hook input priority filter
        iifname "wan0" ip daddr 203.0.113.3 drop
    }
}
"""
RULES_OF_FLAT = """
table ip translation {
    chain out {
        type nat hook postrouting priority srcnat
        oifname "eth0" snat to 100.64.0.2
    }
}
"""


@dataclass(frozen=True)
class TranslatingRouter:
    """Namespaces `home`, `office`, `cafe`, `flat`, `router` and `outside` by the prefix of their names."""

    prefix: str

    def command(self, place: str, *command: str) -> Sequence[str]:
        return ["ip", "netns", "exec", f"{self.prefix}-{place}", *command]

    def at(self, place: str, *command: str) -> str:
        return run(*self.command(place, *command))

    def translate(self, router: str, rules: str) -> None:
        """Let a place forward packets by these rules."""
        self.at(router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        subprocess.run(self.command(router, "nft", "-f", "-"), input=rules, text=True, check=True)

    def join(self, place: str, address: str, device: str, *addresses: str, router: str = "router") -> None:
        """Join a place to the router, whose end of the link is `device`."""
        run(
            "ip", "link", "add", "eth0", "netns", f"{self.prefix}-{place}", "type", "veth",
            "peer", "name", device, "netns", f"{self.prefix}-{router}",
        )  # fmt: skip
        for where, link, each in ((place, "eth0", address), *((router, device, each) for each in addresses)):
            self.at(where, "ip", "address", "add", each, "dev", link)
            self.at(where, "ip", "link", "set", link, "up")


@contextmanager
def translating_router() -> Iterator[TranslatingRouter]:
    network = TranslatingRouter(f"nat{secrets.token_hex(2)}")
    with ExitStack() as undo:
        for place in ("home", "office", "cafe", "flat", "router", "outside"):
            run("ip", "netns", "add", f"{network.prefix}-{place}")
            undo.callback(run, "ip", "netns", "delete", f"{network.prefix}-{place}")
            network.at(place, "ip", "link", "set", "lo", "up")
        network.join("outside", f"{OUTSIDE}/24", "wan0", f"{HOME}/24", f"{OFFICE}/24", f"{CAFE}/24")
        network.join("home", "10.9.1.2/24", "home", "10.9.1.1/24")
        network.join("office", "10.9.2.2/24", "office", "10.9.2.1/24")
        network.join("flat", "100.64.0.2/24", "flat", "100.64.0.1/24")
        network.join("cafe", "10.9.3.2/24", "cafe", "10.9.3.1/24", router="flat")
        gateways = {"home": "10.9.1.1", "office": "10.9.2.1", "flat": "100.64.0.1", "cafe": "10.9.3.1"}
        for place, gateway in gateways.items():
            network.at(place, "ip", "route", "add", "default", "via", gateway)
        network.translate("router", RULES)
        network.translate("flat", RULES_OF_FLAT)
        yield network
