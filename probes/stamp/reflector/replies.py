"""Makes replies to a batch of STAMP packets. No I/O; no packet content raises an error.

Non-peers, unauthentic packets and excess rates get no reply.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bytes, Int64s
from probes.peers import Peers
from probes.stamp import tlv
from probes.stamp.packets import (
    AUTHENTICATED_BYTES,
    HMACED_BYTES,
    REPLY,
    REQUEST,
    SHORTEST_REQUEST_BYTES,
    base_bytes,
    digest,
    encode_estimate,
    fields,
    is_authentic,
    to_ntp,
)
from probes.stamp.reflector.sessions import RateCap, SenderSession, SenderSessions

PORT_BYTES = 2
SSID_BYTES = 2
SEQUENCE_BYTES = 4
SSID_AT = {False: 14, True: 26}
DSCP_MASK = 0xFC
# RFC 8972, section 4.7.
FOLLOW_UP = np.dtype([("counter", ">u4"), ("sent", ">u8"), ("mode", "u1"), ("reserved", "u1", (3,))])
COUNTED = ("answered", "not_a_peer", "not_authentic", "above_rate", "malformed")


@dataclass(frozen=True, slots=True)
class Requests:
    """Received packets, row by row; addresses and ports in network order."""

    data: Bytes
    lengths: Int64s  # on the wire
    addresses: Bytes
    ports: Bytes
    received_ns: Int64s  # kernel time, Unix; 0 if unknown
    ttls: Int64s  # -1 if unknown, as `traffic_classes`
    traffic_classes: Int64s


@dataclass(frozen=True, slots=True)
class Answers:
    rows: Int64s  # of their requests
    data: Bytes
    lengths: Int64s
    traffic_classes: Int64s
    sessions: list[SenderSession]
    numbers: list[int]  # of each reply in its session


@dataclass(slots=True)
class _Admitted:
    """Answered requests of a mode."""

    rows: list[int] = field(default_factory=list)
    sessions: list[SenderSession] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def add(self, rows: list[int], sessions: list[SenderSession], numbers: list[int], key: bytes | None) -> None:
        self.rows += rows
        self.sessions += sessions
        self.numbers += numbers
        self.keys += [key or b""] * len(rows)


class ReplyMaker:
    """Answers packets of `peers` within the rates.

    `counts` is by answer or reason; `arrived` by address, if it is a key.
    """

    def __init__(self, peers: Peers, rates: RateCap, sessions: SenderSessions) -> None:
        self.peers = peers
        self.counts = dict.fromkeys(COUNTED, 0)
        self.arrived: dict[bytes, int] = {}
        self.error_s: float | None = None
        self._rates = rates
        self._sessions = sessions

    def answer(self, requests: Requests, now_ns: int, now_s: float) -> Answers:
        """Make replies; `now_ns` is Unix, `now_s` monotonic."""
        admitted = self._admit(requests, now_s)
        parts = [
            self._make(requests, some, now_ns, is_authenticated=mode) for mode, some in admitted.items() if some.rows
        ]
        self.counts["answered"] += sum(len(part.rows) for part in parts)
        if len(parts) == 1:
            return parts[0]
        width = requests.data.shape[1]
        return Answers(
            rows=np.concatenate([part.rows for part in parts] or [np.zeros(0, np.int64)]),
            data=np.concatenate([part.data for part in parts] or [np.zeros((0, width), np.uint8)]),
            lengths=np.concatenate([part.lengths for part in parts] or [np.zeros(0, np.int64)]),
            traffic_classes=np.concatenate([part.traffic_classes for part in parts] or [np.zeros(0, np.int64)]),
            sessions=[session for part in parts for session in part.sessions],
            numbers=[number for part in parts for number in part.numbers],
        )

    def _admit(self, requests: Requests, now_s: float) -> dict[bool, _Admitted]:
        rows_of = self._of_peers(requests)
        wanted = {address: len(rows) for address, rows in rows_of.items()}
        permitted = self._rates.permits(wanted, now_s)
        self.counts["above_rate"] += sum(wanted.values()) - sum(permitted)
        admitted = {False: _Admitted(), True: _Admitted()}
        senders: dict[bool, list[bytes]] = {}
        for (address, rows), count in zip(rows_of.items(), permitted, strict=True):
            admission = self.peers.find(address)
            key = None if admission is None else admission.key
            rows = rows[:count]
            if key is not None:
                rows = [row for row in rows if self._is_authentic(key, requests, row)]
                self.counts["not_authentic"] += count - len(rows)
            if rows:
                if address in self.arrived:
                    self.arrived[address] += len(rows)
                mode = key is not None
                if mode not in senders:
                    senders[mode] = _senders(requests, mode)
                of_rows = [senders[mode][row] for row in rows]
                admitted[mode].add(rows, *self._sessions.take_numbers(address, of_rows), key)
        return admitted

    def _of_peers(self, requests: Requests) -> dict[bytes, list[int]]:
        rows_of: dict[bytes, list[int]] = {}
        for row, address in enumerate(_split(requests.addresses)):
            if address in rows_of:
                rows_of[address].append(row)
            else:
                rows_of[address] = [row]
        for stranger in [address for address in rows_of if self.peers.find(address) is None]:
            self.counts["not_a_peer"] += len(rows_of.pop(stranger))
        width = requests.data.shape[1]
        malformed = (requests.lengths < SHORTEST_REQUEST_BYTES) | (requests.lengths > width)
        if malformed.any():
            refused = set(np.flatnonzero(malformed).tolist())
            for address, rows in rows_of.items():
                rows_of[address] = [row for row in rows if row not in refused]
                self.counts["malformed"] += len(rows) - len(rows_of[address])
        return rows_of

    @staticmethod
    def _is_authentic(key: bytes, requests: Requests, row: int) -> bool:
        return bool(requests.lengths[row] >= AUTHENTICATED_BYTES) and is_authentic(
            key, requests.data[row, :AUTHENTICATED_BYTES].tobytes()
        )

    def _make(self, requests: Requests, some: _Admitted, now_ns: int, *, is_authenticated: bool) -> Answers:
        rows = np.array(some.rows, np.int64)
        lengths, received = requests.lengths[rows], requests.data[rows]
        base = base_bytes(is_authenticated)
        data = received.copy()
        data[:, :base] = 0
        asked, replies = fields(received, REQUEST[is_authenticated]), fields(data, REPLY[is_authenticated])
        has_ssid = lengths >= SSID_AT[is_authenticated] + SSID_BYTES
        replies["sequence"] = some.numbers
        replies["estimate"] = encode_estimate(self.error_s)
        replies["ssid"] = np.where(has_ssid, asked["ssid"], 0)
        stamps_ns = requests.received_ns[rows]
        replies["received"] = to_ntp(np.where(stamps_ns > 0, stamps_ns, now_ns))
        replies["sender_sequence"] = asked["sequence"]
        replies["sender_sent"] = asked["sent"]
        replies["sender_estimate"] = asked["estimate"]
        replies["sender_ttl"] = np.clip(requests.ttls[rows], 0, 255)
        replies["sent"] = to_ntp(np.array([now_ns], np.int64))[0]
        classes = requests.traffic_classes[rows]
        answer_classes = np.where(classes >= 0, classes & DSCP_MASK, 0)
        self._extend(received, data, lengths, some, classes, answer_classes, base)
        if is_authenticated:
            for place, key in enumerate(some.keys):
                mac = digest(key, data[place, :HMACED_BYTES].tobytes())
                data[place, HMACED_BYTES:AUTHENTICATED_BYTES] = np.frombuffer(mac, np.uint8)
        return Answers(rows, data, lengths, answer_classes, some.sessions, some.numbers)

    def _extend(
        self,
        received: Bytes,
        data: Bytes,
        lengths: Int64s,
        some: _Admitted,
        classes: Int64s,
        answer_classes: Int64s,
        base: int,
    ) -> None:
        left = np.flatnonzero(lengths >= base + tlv.HEADER.size)
        while len(left):
            first = left[0]
            extensions = tlv.parse(received[first, : lengths[first]].tobytes(), base)
            alike = lengths[left] == lengths[first]
            for extension in extensions:
                header = slice(extension.at + 1, extension.value_at)
                alike &= (received[left, header] == received[first, header]).all(axis=1)
            if not extensions:
                alike &= received[left, base + 1] == 0
            group = left[alike]
            self._fill(data, group, extensions, some, classes, answer_classes, base)
            # Each iteration removes at least the first row.
            left = left[~alike]

    def _fill(
        self,
        data: Bytes,
        group: Int64s,
        extensions: list[tlv.Tlv],
        some: _Admitted,
        classes: Int64s,
        answer_classes: Int64s,
        base: int,
    ) -> None:
        mac = next((extension for extension in extensions if extension.type == tlv.HMAC), None)
        if base == AUTHENTICATED_BYTES and mac is not None and mac.is_whole and mac.length == tlv.HMAC_TLV_BYTES:
            group = self._verified(data, group, extensions, mac, some, base)
        for extension in extensions:
            flags: npt.NDArray[np.uint8] = data[group, extension.at]
            if not extension.is_whole:
                data[group, extension.at] = flags | tlv.MALFORMED
            elif extension.type == tlv.CLASS_OF_SERVICE and extension.length == tlv.CLASS_OF_SERVICE_BYTES:
                _fill_class_of_service(data, group, extension.value_at, classes, answer_classes)
                data[group, extension.at] = 0
            elif extension.type == tlv.FOLLOW_UP and extension.length == tlv.FOLLOW_UP_BYTES:
                data[group, extension.value_at : extension.end] = _follow_ups(some.sessions, group)
                data[group, extension.at] = 0
            elif extension.type == tlv.EXTRA_PADDING or (extension is mac and base == AUTHENTICATED_BYTES):
                data[group, extension.at] = flags & ~np.uint8(tlv.UNRECOGNISED)
            else:
                data[group, extension.at] = flags | tlv.UNRECOGNISED
        if base == AUTHENTICATED_BYTES and mac is not None and mac.is_whole and mac.length == tlv.HMAC_TLV_BYTES:
            for place in group.tolist():
                value = _mac(data[place], mac, some.keys[place], base)
                data[place, mac.value_at : mac.end] = np.frombuffer(value, np.uint8)

    @staticmethod
    def _verified(
        data: Bytes, group: Int64s, extensions: list[tlv.Tlv], mac: tlv.Tlv, some: _Admitted, base: int
    ) -> Int64s:
        """Rows with a verified HMAC TLV; other rows go back with extensions unread and flag I."""
        valid = []
        for place in group.tolist():
            packet = data[place].copy()
            # What the sender signed has its own sequence number.
            packet[:SEQUENCE_BYTES] = fields(data, REPLY[True])["sender_sequence"][place : place + 1].view(np.uint8)
            expected = _mac(packet, mac, some.keys[place], base)
            valid.append(hmac.compare_digest(expected, packet[mac.value_at : mac.end].tobytes()))
        good = np.array(valid, np.bool_)
        for extension in extensions:
            data[group[~good], extension.at] |= tlv.UNVERIFIED
        return group[good]


def _mac(packet: Bytes, mac: tlv.Tlv, key: bytes, base: int) -> bytes:
    """HMAC TLV over sequence number and preceding extensions (RFC 8972, section 4.8)."""
    return digest(key, packet[:SEQUENCE_BYTES].tobytes() + packet[base : mac.at].tobytes())


def _follow_ups(sessions: Sequence[SenderSession], group: Int64s) -> Bytes:
    """Follow-Up Telemetry values; zeros before the first known send time."""
    of_group = [sessions[place] for place in group.tolist()]
    sent_ns = np.array([session.sent_ns for session in of_group], np.int64)
    values = np.zeros(len(group), FOLLOW_UP)
    values["counter"] = [session.sent_counter for session in of_group]
    values["sent"] = to_ntp(sent_ns)
    values["mode"] = tlv.SOFTWARE_STAMP
    values[sent_ns == 0] = np.zeros((), FOLLOW_UP)
    return values.view(np.uint8).reshape(len(group), tlv.FOLLOW_UP_BYTES)


def _senders(requests: Requests, is_authenticated: bool) -> list[bytes]:
    at = SSID_AT[is_authenticated]
    columns = np.zeros((len(requests.data), PORT_BYTES + SSID_BYTES), np.uint8)
    columns[:, :PORT_BYTES] = requests.ports
    if requests.data.shape[1] >= at + SSID_BYTES:
        columns[:, PORT_BYTES:] = requests.data[:, at : at + SSID_BYTES]
        columns[requests.lengths < at + SSID_BYTES, PORT_BYTES:] = 0
    return _split(columns)


def _split(columns: Bytes) -> list[bytes]:
    width, joined = columns.shape[1], columns.tobytes()
    return [joined[at : at + width] for at in range(0, len(joined), width)]


def _fill_class_of_service(data: Bytes, group: Int64s, at: int, classes: Int64s, answer_classes: Int64s) -> None:
    """Write received DSCP and ECN; use the requested DSCP (RFC 8972, section 4.4)."""
    asked = data[group, at] >> 2
    came = np.maximum(classes[group], 0)
    dscp, ecn = came >> 2, came & 0x03
    value = asked.astype(np.int64) << 10 | dscp << 4 | ecn << 2
    data[group, at], data[group, at + 1] = value >> 8, value & 0xFF
    answer_classes[group] = asked.astype(np.int64) << 2
