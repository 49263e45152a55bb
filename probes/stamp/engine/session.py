"""Sends a cycle's STAMP packets and reads replies, with the ping engine.

A reply must match SSID, sequence, our timestamp, address and port and, with keys, be authentic. SSIDs and first
sequences are random.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import SystemRandom

import numpy as np
import numpy.typing as npt

from probes.contract import ProbeError
from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Bools, Bytes, Int64s
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.engine.receiver import Receiver, ReplyMatcher
from probes.packets.engine.sender import Sender
from probes.packets.engine.session import MESSAGE_OVERHEAD_BYTES, PingSession
from probes.packets.icmp import icmp_errors, kernel
from probes.packets.icmp.clock import StampClock
from probes.packets.icmp.echo import SECRET_BYTES, EchoFormat
from probes.packets.icmp.stamp_keys import StampKeys
from probes.stamp import tlv
from probes.stamp.engine.channel import StampChannel
from probes.stamp.engine.table import ReplyFigures, StampTable, Uncounted
from probes.stamp.packets import (
    AUTHENTICATED_BYTES,
    REPLY,
    REQUEST,
    SENDER_TTL_END,
    encode_estimate,
    fields,
    has_reply_length,
    is_authentic,
    to_ntp,
    to_unix_ns,
)
from probes.stamp.request_format import RequestFormat

# Each target has an SSID of its own, which is not 0.
MOST_TARGETS = 0xFFFF
SEQUENCES = 1 << 32
# Port and address in a sockaddr.
PEER_COLUMNS = {4: slice(2, 8), 6: slice(2, 24)}


@dataclass(frozen=True, slots=True)
class Identities:
    """SSID, first sequence number and key of a session's targets, in their order."""

    ssids: Int64s
    first_sequences: Int64s
    keys: tuple[bytes | None, ...]

    @classmethod
    def random(cls, keys: Sequence[bytes | None]) -> Identities:
        if len(keys) > MOST_TARGETS:
            raise ProbeError(f"{len(keys)} targets in a STAMP session; {MOST_TARGETS} at most")
        ssids = np.array(SystemRandom().sample(range(1, MOST_TARGETS + 1), len(keys)), np.int64)
        sequences = np.array([secrets.randbelow(SEQUENCES) for _ in keys], np.int64)
        return cls(ssids, sequences, tuple(keys))

    def of(self, targets: Int64s, *, later_by: int = 0) -> Identities:
        """Identities of some targets, `later_by` packets on."""
        sequences = (self.first_sequences[targets] + later_by) % SEQUENCES
        return Identities(self.ssids[targets], sequences, tuple(self.keys[target] for target in targets.tolist()))


class StampFormat(EchoFormat):
    """Encodes the packets of a session, by rank."""

    def __init__(self, family: int, layout: RequestFormat, identities: Identities, dscp: int, error_s: float | None):
        nothing = np.zeros(len(identities.ssids), np.int64)
        super().__init__(family, 0, bytes(SECRET_BYTES), bytes(layout.tail_bytes), nothing, ip_header=False)
        self.layout = layout
        self.identities = identities
        self.head_bytes = layout.head_bytes
        self._extensions = np.frombuffer(layout.extensions(dscp), np.uint8)
        self._estimate = encode_estimate(error_s)

    def prepare(self, heads: Bytes) -> None:
        heads[:, self.layout.base_bytes :] = self._extensions
        fields(heads, REQUEST[self.layout.is_authenticated])["estimate"] = self._estimate

    def write(self, heads: Bytes, numbers: Int64s, turns: Int64s, ranks: Int64s, tail_sums: Int64s) -> None:
        packets = fields(heads, REQUEST[self.layout.is_authenticated])
        packets["ssid"] = self.identities.ssids[ranks]
        packets["sequence"] = (self.identities.first_sequences[ranks] + turns) % SEQUENCES

    def sign(self, heads: Bytes, ranks: Int64s, stamp: np.uint64) -> None:
        """Write the timestamp, and HMACs if authenticated."""
        fields(heads, REQUEST[self.layout.is_authenticated])["sent"] = stamp
        if self.layout.is_authenticated:
            for row, rank in enumerate(ranks.tolist()):
                head = bytearray(heads[row].tobytes())
                self.layout.sign(self.identities.keys[rank] or b"", head)
                heads[row] = np.frombuffer(head, np.uint8)

    def tail_sum(self, packet_bytes: int) -> int:
        return 0


class StampSender(Sender):
    """Sends packets, each with the time of its call."""

    _table: StampTable
    _format: StampFormat

    def _write(self) -> None:
        super()._write()
        numbers = np.arange(self._written_first, self._written_stop)
        ranks = self._table.places(numbers)[1]
        self._batch.set_destinations(ranks, np.full(len(numbers), len(self._format.padding)))

    def _send_once(self, stop: int) -> int:
        first = self._table.next
        rows = slice(first - self._written_first, stop - self._written_first)
        stamp = to_ntp(np.array([time.time_ns()], np.int64))[0]
        self._format.sign(self._batch.heads[rows], self._table.places(np.arange(first, stop))[1], stamp)
        self._table.sent_stamps[first:stop] = stamp
        return super()._send_once(stop)


class StampMatcher(ReplyMatcher):
    """Matches replies to packets; `hosts` are port and address of each target."""

    _table: StampTable
    _format: StampFormat

    def __init__(self, echo_format: EchoFormat, table: PacketTable, hosts: Bytes, clock: StampClock) -> None:
        super().__init__(echo_format, table, hosts, clock)
        self._rank_of_ssid: Int64s = np.full(MOST_TARGETS + 1, -1, np.int64)
        self._rank_of_ssid[self._format.identities.ssids] = np.arange(len(self._format.identities.ssids))

    def match_messages(
        self, data: Bytes, lengths: Int64s, sources: Bytes, controls: kernel.Controls, now_ns: int
    ) -> None:
        layout, table = self._format.layout, self._table
        replies = fields(data, REPLY[layout.is_authenticated])
        ranks = self._ranks(replies["ssid"], sources)
        turns = (
            replies["sender_sequence"].astype(np.int64) - self._format.identities.first_sequences[ranks]
        ) % SEQUENCES
        packets = np.where(turns < len(table.packet_bytes), table.packets_at(turns, ranks), table.total)
        ours = has_reply_length(lengths, layout.is_authenticated) & (ranks >= 0) & self._was_sent(packets)
        known = np.where(ours, packets, 0)
        ours &= table.sent_stamps[known] == replies["sender_sent"].astype(np.uint64)
        from_target = (sources == self._hosts[np.maximum(ranks, 0)]).all(axis=1)
        self._note_uncounted(Uncounted.OTHER_ADDRESS, ours & ~from_target, ranks, sources)
        ours &= from_target
        if layout.is_authenticated:
            authentic = self._authentic(data, ours, ranks)
            self._note_uncounted(Uncounted.NOT_AUTHENTIC, ours & ~authentic, ranks, sources)
            ours &= authentic
        if not ours.all():
            self._note_echoes(data, lengths, sources)
        rows = np.flatnonzero(ours)
        new = self._first_replies(packets[rows])
        self._store_replies(packets, controls, controls.hop_limit, rows, now_ns)
        extended = self._extended(data, lengths, ranks, rows)
        self._store_figures(data, lengths, replies, packets, controls, rows[new], extended[new])
        further = rows[~new]
        arrived_ns = controls.stamp_ns[further] - self._clock.offset_ns
        received_ns = to_unix_ns(replies["received"][further], replies["estimate"][further].astype(np.int64))
        counters = replies["sequence"][further].astype(np.int64)
        table.enter_further(packets[further], counters, arrived_ns, received_ns)
        self._store_follow_ups(data, lengths, ranks, rows[extended])

    def _note_uncounted(self, reason: Uncounted, which: Bools, ranks: Int64s, sources: Bytes) -> None:
        rows = np.flatnonzero(which)
        self._table.enter_uncounted(ranks[rows], reason, sources[rows])

    def _note_echoes(self, data: Bytes, lengths: Int64s, sources: Bytes) -> None:
        """Note our own packets that came back unchanged."""
        layout, table = self._format.layout, self._table
        requests = fields(data, REQUEST[layout.is_authenticated])
        ranks: Int64s = self._rank_of_ssid[requests["ssid"].astype(np.int64)]
        turns = (requests["sequence"].astype(np.int64) - self._format.identities.first_sequences[ranks]) % SEQUENCES
        packets = np.where(turns < len(table.packet_bytes), table.packets_at(turns, ranks), table.total)
        echoes = (lengths >= layout.base_bytes) & (ranks >= 0) & self._was_sent(packets)
        echoes &= table.sent_stamps[np.where(echoes, packets, 0)] == requests["sent"].astype(np.uint64)
        self._note_uncounted(Uncounted.ECHO, echoes, ranks, sources)

    def _ranks(self, ssids: Bytes, sources: Bytes) -> Int64s:
        """Target of each reply, else -1; by address for TWAMP-Light, without SSID."""
        ranks: Int64s = self._rank_of_ssid[ssids.astype(np.int64)]
        for row in np.flatnonzero(ssids == 0).tolist():
            ranks[row] = self._rank_of_host.get(sources[row].tobytes(), -1)
        return ranks

    def _authentic(self, data: Bytes, ours: Bools, ranks: Int64s) -> Bools:
        """Rows with valid HMACs; without a requested HMAC TLV, extensions are invalid."""
        valid = np.zeros(len(data), np.bool_)
        for row in np.flatnonzero(ours).tolist():
            key = self._format.identities.keys[int(ranks[row])] or b""
            valid[row] = is_authentic(key, data[row, :AUTHENTICATED_BYTES].tobytes())
        return valid

    def _first_replies(self, packets: Int64s) -> Bools:
        first = np.zeros(len(packets), np.bool_)
        first[np.unique(packets, return_index=True)[1]] = True
        first &= self._table.replies[packets] == 0
        return first

    def _store_figures(
        self,
        data: Bytes,
        lengths: Int64s,
        replies: npt.NDArray[np.void],
        packets: Int64s,
        controls: kernel.Controls,
        rows: Int64s,
        extended: Bools,
    ) -> None:
        table, some, of_rows = self._table, packets[rows], replies[rows]
        estimates = of_rows["estimate"].astype(np.int64)
        table.counter[some] = of_rows["sequence"].astype(np.int64)
        table.estimate[some] = estimates
        table.far_received_ns[some] = to_unix_ns(of_rows["received"], estimates)
        table.far_sent_ns[some] = to_unix_ns(of_rows["sent"], estimates)
        ttls = of_rows["sender_ttl"].astype(np.int64)
        # A reflector that cannot read the TTL leaves 0, which no packet that came had.
        table.forward_ttl[some] = np.where((lengths[rows] >= SENDER_TTL_END) & (ttls > 0), ttls, -1)
        if controls.traffic_class is not None:
            classes = controls.traffic_class[rows]
            table.reverse_dscp[some] = np.where(classes >= 0, classes >> 2, -1)
        if self._format.layout.has_extensions:
            at = self._format.layout.cos_at
            good = self._has_tlv(data[rows], lengths[rows], at, tlv.CLASS_OF_SERVICE, tlv.CLASS_OF_SERVICE_BYTES)
            value = data[rows, at + tlv.HEADER.size].astype(np.int64) << 8 | data[rows, at + tlv.HEADER.size + 1]
            table.forward_dscp[some] = np.where(good & extended, value >> 4 & 0x3F, -1)

    def _extended(self, data: Bytes, lengths: Int64s, ranks: Int64s, rows: Int64s) -> Bools:
        """Rows with credible extensions: in authenticated sessions, with their HMAC."""
        layout, keys = self._format.layout, self._format.identities.keys
        extended = np.full(len(rows), layout.has_extensions, np.bool_)
        if layout.is_authenticated and layout.has_extensions:
            at = layout.hmac_at
            extended &= self._has_tlv(data[rows], lengths[rows], at, tlv.HMAC, tlv.HMAC_TLV_BYTES)
            for place in np.flatnonzero(extended).tolist():
                row = rows[place]
                key = keys[int(ranks[row])] or b""
                extended[place] = layout.has_valid_extensions(key, data[row].tobytes())
        return extended

    def _store_follow_ups(self, data: Bytes, lengths: Int64s, ranks: Int64s, rows: Int64s) -> None:
        layout = self._format.layout
        if not layout.has_extensions or not len(rows):
            return
        at = layout.follow_up_at
        good = self._has_tlv(data[rows], lengths[rows], at, tlv.FOLLOW_UP, tlv.FOLLOW_UP_BYTES)
        some = rows[good]
        values = np.ascontiguousarray(data[some, at + tlv.HEADER.size : at + tlv.HEADER.size + 12])
        counters = np.ascontiguousarray(values[:, :4]).view(">u4")[:, 0].astype(np.int64)
        stamps = np.ascontiguousarray(values[:, 4:]).view(">u8")[:, 0].astype(np.uint64)
        estimates = fields(data, REPLY[layout.is_authenticated])["estimate"][some].astype(np.int64)
        told = stamps != 0
        self._table.enter_follow_ups(ranks[some][told], counters[told], to_unix_ns(stamps, estimates)[told])

    @staticmethod
    def _has_tlv(data: Bytes, lengths: Int64s, at: int, kind: int, value_bytes: int) -> Bools:
        """Which replies have a whole TLV here that the reflector filled in."""
        flags = tlv.UNRECOGNISED | tlv.MALFORMED | tlv.UNVERIFIED
        good: Bools = (lengths >= at + tlv.HEADER.size + value_bytes) & (data[:, at + 1] == kind)
        good &= (data[:, at] & flags == 0) & (data[:, at + 2] == 0) & (data[:, at + 3] == value_bytes)
        return good

    def match_queued_errors(
        self, data: Bytes, lengths: Int64s, hosts: Bytes, controls: kernel.Controls, now_ns: int
    ) -> None:
        """Keep each target's first ICMP error."""
        for row in np.flatnonzero(controls.error_origin).tolist():
            rank = self._rank_of_host.get(hosts[row].tobytes(), -1)
            name = icmp_errors.name_of(
                self._format.family, int(controls.error_type[row]), int(controls.error_code[row])
            )
            if rank >= 0:
                self._table.error_names.setdefault(rank, name)


class StampSession(PingSession):
    channel: StampChannel
    _table: StampTable

    def __init__(
        self,
        channel: StampChannel,
        addresses: Sequence[SocketAddress],
        pattern: SendPattern,
        layout: RequestFormat,
        identities: Identities,
        *,
        dscp: int,
        error_s: float | None,
    ) -> None:
        self._layout, self._identities, self._dscp, self._error_s = layout, identities, dscp, error_s
        super().__init__(channel, addresses, pattern)

    def _make_table(self, targets: int, pattern: SendPattern, cells: Int64s | None) -> PacketTable:
        return StampTable(targets, pattern, cells)

    def _make_sender_and_receiver(self, addresses: Sequence[SocketAddress], flows: Int64s) -> None:
        channel, table = self.channel, self._table
        largest_bytes = self._layout.packet_bytes
        charge_bytes = largest_bytes + 2 * MESSAGE_OVERHEAD_BYTES
        self._room = max(1, channel.receive_buffer_bytes // (2 * charge_bytes))
        rows = min(kernel.MAX_MESSAGES, self._room, table.total)
        by_rank = self._identities.of(np.argsort(self._rank_of_target))
        stamp_format = StampFormat(channel.family, self._layout, by_rank, self._dscp, self._error_s)
        channel.restart_stamp_keys()
        self._keys = StampKeys(table.total)
        self._sender = StampSender(channel, addresses, stamp_format, table, self._keys, rows, self._restart_keys)
        self._receiver = Receiver(
            channel,
            self._sender.names,
            stamp_format,
            table,
            self._keys,
            rows,
            matcher=StampMatcher,
            host_columns=PEER_COLUMNS,
        )

    def figures(self) -> ReplyFigures:
        return self._table.figures(self._rank_of_target, self._receiver.clock.offset_ns)

    def follow_ups(self) -> Int64s:
        """Rows of target, counter and true send time."""
        rows = self._table.follow_ups
        return np.column_stack((np.argsort(self._rank_of_target)[rows[:, 0]], rows[:, 1:]))

    def add_follow_ups(self, targets: Int64s, counters: Int64s, sent_ns: Int64s) -> None:
        """Add true send times that a later session learned."""
        self._table.enter_follow_ups(self._rank_of_target[targets], counters, sent_ns)

    def error_names(self) -> dict[int, str]:
        target_of_rank = np.argsort(self._rank_of_target)
        return {int(target_of_rank[rank]): name for rank, name in self._table.error_names.items()}

    def uncounted_notes(self) -> dict[int, list[str]]:
        """Sentences on each target's uncounted replies."""
        target_of_rank = np.argsort(self._rank_of_target)
        return {
            int(target_of_rank[rank]): [
                f"{count} × {reason.value.format(sender=self._sender_text(source))}"
                for (reason, source), count in counts.most_common()
            ]
            for rank, counts in self._table.uncounted.items()
        }

    def _sender_text(self, source: bytes) -> str:
        port, host = int.from_bytes(source[:2]), source[-4:] if self.channel.family == 4 else source[6:22]
        return f"{socket.inet_ntop(FAMILY[self.channel.family], host)} port {port}"
