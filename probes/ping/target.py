"""The targets of cycles: hosts that packets are sent to, with the way they leave this host."""

from __future__ import annotations

from typing import Literal

import msgspec

from probes.ping.egress import ANY, Egress


class PacketTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A host to send packets to. `source` is the local address to send from; ignored if this host does not have it.
    `egress` says how packets leave, and is left out of the JSON where the routes of this host decide."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    path_id: int | None = None
    egress: Egress | msgspec.UnsetType = msgspec.UNSET

    @property
    def leaves_by(self) -> Egress:
        return ANY if isinstance(self.egress, msgspec.UnsetType) else self.egress
