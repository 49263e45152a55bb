"""The hosts that a server of an agent answers by its plan, and their keys."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from probes.contract import Deadline, ProbeError
from probes.packets.egress import ANY, Egress
from probes.packets.resolve import RESOLVE_S, resolve
from probes.peers import SharedKey

logger = logging.getLogger(__name__)


class AnsweredPeer(msgspec.Struct, frozen=True, kw_only=True):
    address: str  # address or name
    family: Literal[4, 6] = 4
    key: SharedKey | None = None  # the pair's, with which it must authenticate
    egress: Egress | msgspec.UnsetType = msgspec.UNSET  # of our host that it measures; left out for any


def permitted_keys(
    peers: Sequence[AnsweredPeer], forbids: Callable[[str], str | None], server: str
) -> dict[Egress, dict[str, str | None]]:
    """Keys by address, of the peers that resolve and that `forbids` does not exclude; others are logged."""
    answers = resolve([(peer.address, peer.family) for peer in peers], Deadline(RESOLVE_S))
    keys: dict[Egress, dict[str, str | None]] = defaultdict(dict)
    for peer in peers:
        answer = answers[peer.address, peer.family]
        rule = str(answer) if isinstance(answer, ProbeError) else forbids(answer[0])
        if isinstance(answer, ProbeError) or rule is not None:
            logger.warning("%s: %s is not answered: %s", server, peer.address, rule)
        else:
            egress = ANY if isinstance(peer.egress, msgspec.UnsetType) else peer.egress
            keys[egress][answer[0].partition("%")[0]] = peer.key
    return keys
