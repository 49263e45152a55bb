"""UDP datagrams instead of echo requests: constant ports, no privilege.

Most routers quote number and secret in the payload; other errors count only for a destination's single unanswered
datagram (`TraceTable.has_short_quotes`).
"""

from __future__ import annotations

import numpy as np

from probes.packets.arrays import Bytes, Int64s
from probes.packets.engine.receiver import ReplyMatcher
from probes.packets.icmp.echo import SECRET_BYTES, EchoFormat, Replies
from probes.packets.icmp.icmp_errors import Errors
from probes.trace.engine.packets import TraceTable

# Port of traceroute(8): hosts expect nothing useful there.
DESTINATION_PORT = 33434

HEAD = np.dtype([("number", ">u4"), ("secret", "u1", (SECRET_BYTES,)), ("unused", ">u2")])


class UdpFormat(EchoFormat):
    """Encodes datagrams. No datagram is a reply: a host replies with Port Unreachable."""

    head_bytes = HEAD.itemsize

    def prepare(self, heads: Bytes) -> None:
        heads.view(HEAD)[:, 0]["secret"] = self.secret

    def write(self, heads: Bytes, numbers: Int64s, turns: Int64s, ranks: Int64s, tail_sums: Int64s) -> None:
        heads.view(HEAD)[:, 0]["number"] = numbers

    def read(self, data: Bytes, lengths: Int64s) -> Replies:
        nothing = np.zeros(len(data), np.int64)
        return Replies(nothing == 1, nothing == 0, nothing, nothing, nothing, lengths, None)


class UdpMatcher(ReplyMatcher):
    """Matches errors by the payload that they quote."""

    _table: TraceTable

    def _packets_of(self, errors: Errors) -> Int64s:
        fields = np.ascontiguousarray(errors.quoted[:, : HEAD.itemsize]).view(HEAD)[:, 0]
        numbers = fields["number"].astype(np.int64)
        is_whole = errors.quoted_bytes >= HEAD.itemsize
        matches = is_whole & (fields["secret"] == self._format.secret).all(axis=1) & self._was_sent(numbers)
        numbers = np.where(matches, numbers, -1)
        for row in np.flatnonzero(errors.quoted_bytes == 0).tolist():
            numbers[row] = self._only_unanswered(errors.hosts[row])
        ranks = self._table.ranks[np.maximum(numbers, 0)]
        return np.where((numbers >= 0) & (errors.hosts == self._hosts[ranks]).all(axis=1), numbers, -1)

    def _only_unanswered(self, destination: Bytes) -> int:
        """The only unanswered datagram to a host, else -1."""
        self._table.has_short_quotes = True
        candidates = [
            number
            for number in self._table.unanswered
            if number < self._table.next and (self._hosts[self._table.ranks[number]] == destination).all()
        ]
        return candidates[0] if len(candidates) == 1 else -1
