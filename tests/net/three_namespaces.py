"""Namespaces near, router and far, joined by veth pairs: `NEAR` and `FAR` reach each other through the router."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.lab import repository_environment

NEAR, FAR = "10.9.1.2", "10.9.2.2"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class ThreeNamespaces:
    """Namespaces by the prefix of their names. The router's devices are `near` and `far`."""

    prefix: str

    def at(self, place: str, *command: str) -> str:
        return run("ip", "netns", "exec", f"{self.prefix}-{place}", *command)

    def start(self, place: str, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["ip", "netns", "exec", f"{self.prefix}-{place}", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=repository_environment(),
        )  # fmt: skip


@contextmanager
def three_namespaces() -> Iterator[ThreeNamespaces]:
    path = ThreeNamespaces(f"pol{secrets.token_hex(2)}")
    with ExitStack() as undo:
        for place in ("near", "router", "far"):
            run("ip", "netns", "add", f"{path.prefix}-{place}")
            undo.callback(run, "ip", "netns", "delete", f"{path.prefix}-{place}")
            path.at(place, "ip", "link", "set", "lo", "up")
        for number, place in ((1, "near"), (2, "far")):
            run(
                "ip", "link", "add", "wan0", "netns", f"{path.prefix}-{place}", "type", "veth",
                "peer", "name", place, "netns", f"{path.prefix}-router",
            )  # fmt: skip
            for where, device, address in (("router", place, f"10.9.{number}.1"), (place, "wan0", f"10.9.{number}.2")):
                path.at(where, "ip", "address", "add", f"{address}/24", "dev", device)
                path.at(where, "ip", "link", "set", device, "up")
            path.at(place, "ip", "route", "add", "default", "via", f"10.9.{number}.1")
        path.at("router", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        yield path
