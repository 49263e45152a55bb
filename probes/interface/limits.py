"""Table [snmp] of limits.toml.

Secrets are in files that only the agent reads: neither the plan nor a result has them.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from probes.contract import ProbeError
from probes.limit_keys import ALL_DAY, Hours, NetworkList
from probes.toml.keys import Text, meaning

SecretFile = Annotated[Text, meaning("file with the secret, its last line end left out")]


class SnmpRouter(msgspec.Struct, frozen=True, kw_only=True):
    """A [[snmp.router]] table."""

    networks: Annotated[
        NetworkList, meaning("networks of routers that may be polled; [networks] applies as well", '["192.0.2.1/32"]')
    ]
    version: Annotated[Literal["2c", "3"], meaning("of SNMP")] = "2c"
    community_file: Annotated[SecretFile | None, meaning("file with the community, of version 2c")] = None
    user: Annotated[Text | None, meaning("name of the user, of version 3")] = None
    authentication: Annotated[Literal["sha1", "sha256", "sha512"], meaning("protocol of the user's key")] = "sha256"
    authentication_file: Annotated[SecretFile | None, meaning("file with the password of the user's key")] = None
    privacy: Annotated[Literal["aes128", "aes256"], meaning("encryption")] = "aes128"
    privacy_file: Annotated[SecretFile | None, meaning("file with its password. Default: not encrypted")] = None
    port: Annotated[int, Meta(ge=1, le=65_535), meaning("UDP port of the SNMP agent")] = 161

    def contains(self, address: str) -> bool:
        literal = ipaddress.ip_address(address)
        return any(literal in ipaddress.ip_network(network) for network in self.networks)

    def fault(self) -> str | None:
        """Why these credentials cannot be used, or None."""
        if self.version == "2c":
            return None if self.community_file else "snmp.router: version 2c needs community_file"
        if not self.user or not self.authentication_file:
            return "snmp.router: version 3 needs user and authentication_file"
        return None


class SnmpLimits(msgspec.Struct, frozen=True, kw_only=True):
    routers: Annotated[tuple[SnmpRouter, ...], meaning("routers that may be polled. Default: none")] = msgspec.field(
        name="router", default=()
    )
    hours: Hours = ALL_DAY

    def router(self, address: str) -> SnmpRouter | None:
        """Return the first table with a network that contains the address."""
        return next((router for router in self.routers if router.contains(address)), None)

    def forbids_router(self, address: str) -> str | None:
        """Return the rule against polling an address."""
        router = self.router(address)
        return f"snmp.router: {address} is in none of their networks" if router is None else router.fault()


def secret(path: str) -> str:
    """Read a secret. Raises `ProbeError`, without the secret."""
    try:
        text = Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ProbeError(f"snmp.router: {path}: {reason}", permanent=True) from error
    if not text:
        raise ProbeError(f"snmp.router: {path} is empty", permanent=True)
    return text
