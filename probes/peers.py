"""The hosts that a server of ours answers, and the keys that it shares with them."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

# The shared key of two ends: at least 16 random bytes in base64.
SharedKey = Annotated[str, Meta(min_length=24, max_length=128, pattern=r"\A[A-Za-z0-9+/]+={0,2}\Z")]
MOST_LOOKED_UP = 4096


@dataclass(frozen=True, slots=True)
class Admission:
    """How a peer is answered: with its key, required in its packets too, or unauthenticated."""

    key: bytes | None = None


class Peers:
    """The answered hosts: `keys` by address, and `networks`.

    An address with a key is answered only with it.
    """

    def __init__(
        self, keys: Mapping[str, str | None], networks: Iterable[str] = (), network_key: str | None = None
    ) -> None:
        self._of_network = Admission(None if network_key is None else base64.b64decode(network_key))
        self._hosts = {
            ipaddress.ip_address(address).packed: Admission(None if key is None else base64.b64decode(key))
            for address, key in keys.items()
        }
        parsed = [ipaddress.ip_network(network) for network in networks]
        self._networks = [
            (
                len(network.network_address.packed),
                int(network.network_address),
                network.max_prefixlen - network.prefixlen,
            )
            for network in parsed
        ]
        self._looked_up: dict[bytes, Admission | None] = {}

    def __len__(self) -> int:
        return len(self._hosts) + len(self._networks)

    @property
    def addresses(self) -> Iterable[bytes]:
        """Planned hosts in network order, without `networks`."""
        return self._hosts.keys()

    def find(self, address: bytes) -> Admission | None:
        """Admission of an address (network order), or None."""
        admission = self._hosts.get(address)
        if admission is not None or not self._networks:
            return admission
        if address not in self._looked_up:
            if len(self._looked_up) >= MOST_LOOKED_UP:
                self._looked_up.clear()
            self._looked_up[address] = self._of_network if self._is_in_a_network(address) else None
        return self._looked_up[address]

    def _is_in_a_network(self, address: bytes) -> bool:
        number = int.from_bytes(address)
        return any(
            length == len(address) and number >> host_bits == network >> host_bits
            for length, network, host_bits in self._networks
        )


def read_key(path: Path) -> str:
    """Read a key from a file. Raises ValueError with the fault."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or 'is not text'}") from error
    try:
        key: str = msgspec.convert(text, SharedKey)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"{path}: no key of 16 bytes or more in base64; make one with `head -c 32 /dev/urandom | base64 > {path}`"
        ) from error
    return key
