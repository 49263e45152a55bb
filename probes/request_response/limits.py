"""Table [request_response] of limits.toml: limits on blocks as client and as server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from probes.limit_keys import ALL_DAY, Hours, NetworkList
from probes.request_response.protocol import Order
from probes.request_response.spec import LARGEST_RUN_BYTES, RequestResponseSpec
from probes.toml.keys import meaning


class RequestResponseLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_run_bytes: Annotated[
        int, Meta(ge=0, le=LARGEST_RUN_BYTES), meaning("payload of a run in both directions, sent or answered")
    ] = LARGEST_RUN_BYTES
    serve: Annotated[bool, meaning("answer the blocks of the plan's peers")] = True
    peers: Annotated[NetworkList, meaning("networks answered besides the plan's peers, without a key")] = ()
    max_connections: Annotated[int, Meta(ge=1, le=1000), meaning("connections answered at once")] = 16
    max_bytes_per_peer_per_hour: Annotated[
        int, Meta(ge=0), meaning("payload exchanged with an address as a server, on average over an hour")
    ] = 2_000_000_000
    hours: Hours = ALL_DAY

    def forbids_run(self, spec: RequestResponseSpec) -> str | None:
        if spec.run_bytes <= self.max_run_bytes:
            return None
        return f"request_response.max_run_bytes: {spec.run_bytes} planned, {self.max_run_bytes} allowed"

    def permits_order(self, order: Order) -> bool:
        return order.is_valid and order.payload_bytes <= self.max_run_bytes
