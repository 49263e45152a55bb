"""A STAMP reflector: answers packets in batches, and keeps each reply's true send time.

Batching costs no accuracy: receive times are the kernel's, and the time spent here is reported.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Sequence

import numpy as np

from probes.packets.arrays import Int64s
from probes.packets.engine.receiver import HOST_COLUMNS
from probes.packets.icmp import kernel
from probes.stamp.engine.channel import ReflectorChannel
from probes.stamp.reflector.replies import Answers, ReplyMaker, Requests
from probes.stamp.reflector.sessions import SenderSession

MOST_PACKET_BYTES = 9216
ROWS = 256
STAMP_ROWS = 512
TOGETHER_S = 0.001
BUSY_TOGETHER_S = 0.004
# From this many packets on, the next wait longer for each other: a batch's time hardly depends on its size.
BUSY_PACKETS = 8
POLL_MS = 500
SEND_WAIT_MS = 10
MOST_SENT_REPLIES = 1 << 16
PORT_COLUMNS = slice(2, 4)
BUFFER_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)


class SentReplies:
    """A ring of the last `most` replies, by kernel number, until their send times come."""

    def __init__(self, most: int = MOST_SENT_REPLIES) -> None:
        self._most = most
        self._next = 0
        self._sessions: list[SenderSession | None] = [None] * most
        self._numbers = [0] * most

    def add(self, sessions: list[SenderSession], numbers: list[int]) -> None:
        """Add at most `most`, in the order in which the kernel took them."""
        begin = self._next % self._most
        until_end = self._most - begin
        self._next += len(numbers)
        self._sessions[begin : begin + len(sessions)] = sessions[:until_end]
        self._sessions[: len(sessions[until_end:])] = sessions[until_end:]
        self._numbers[begin : begin + len(numbers)] = numbers[:until_end]
        self._numbers[: len(numbers[until_end:])] = numbers[until_end:]

    def store_stamps(self, keys: Int64s, stamps_ns: Int64s) -> None:
        """Store send times; entries without key or time are left out."""
        for key, stamp_ns in zip(keys.tolist(), stamps_ns.tolist(), strict=True):
            session = self._sessions[key % self._most] if key >= 0 and stamp_ns > 0 else None
            if session is not None:
                session.sent_counter, session.sent_ns = self._numbers[key % self._most], stamp_ns


class ReflectorSocket:
    """A socket with its batches, and replies of unknown send time."""

    def __init__(self, channel: ReflectorChannel, maker: ReplyMaker) -> None:
        self.channel = channel
        self._maker = maker
        # Replies go to the rows of this batch's names.
        self._received = kernel.KernelReceiveBatch(
            channel.descriptor, ROWS, MOST_PACKET_BYTES, flags=socket.MSG_TRUNC, with_names=True
        )
        self._replies = channel.reply_batch(self._received.names, ROWS, MOST_PACKET_BYTES)
        self._queued = channel.error_queue(STAMP_ROWS)
        self._sent = SentReplies()

    def serve_all(self) -> int:
        """Answer all waiting packets; return their number."""
        total = count = self.serve()
        while count == ROWS:
            count = self.serve()
            total += count
        return total

    def serve(self) -> int:
        """Answer a batch; return the number of its packets."""
        self._read_stamps()
        count = self._received.receive()
        if count == 0:
            return 0
        controls = self._received.controls(count)
        names = self._received.names[:count]
        lengths = self._received.lengths(count)
        width = int(min(max(int(lengths.max()), 128), MOST_PACKET_BYTES))
        requests = Requests(
            data=np.ascontiguousarray(self._received.data[:count, :width]),
            lengths=lengths,
            addresses=names[:, HOST_COLUMNS[self.channel.family]],
            ports=names[:, PORT_COLUMNS],
            received_ns=controls.stamp_ns,
            ttls=controls.hop_limit,
            traffic_classes=np.full(count, -1, np.int64) if controls.traffic_class is None else controls.traffic_class,
        )
        answers = self._maker.answer(requests, time.time_ns(), time.monotonic())
        if len(answers.rows):
            local = None if controls.local_address is None else controls.local_address[answers.rows]
            self._replies.heads[: len(answers.rows), : answers.data.shape[1]] = answers.data
            self._replies.set_replies(answers.rows, answers.lengths, answers.traffic_classes, local)
            self._send(answers)
        return count

    def _send(self, answers: Answers) -> None:
        first, total = 0, len(answers.rows)
        while first < total:
            try:
                taken = self._replies.send(first, total)
            except OSError as error:
                if error.errno in BUFFER_FULL and self._can_send():
                    continue
                # Not this one: its sender sees a lost reply, as it is.
                first += 1
                self._restart_keys()
                continue
            self._sent.add(answers.sessions[first : first + taken], answers.numbers[first : first + taken])
            first += taken

    def _can_send(self) -> bool:
        poll = select.poll()
        poll.register(self.channel.descriptor, select.POLLOUT)
        return any(events & select.POLLOUT for _, events in poll.poll(SEND_WAIT_MS))

    def _restart_keys(self) -> None:
        self._read_stamps()
        self.channel.restart_stamp_keys()
        self._sent = SentReplies()

    def _read_stamps(self) -> None:
        batch = self._queued
        while batch is not None:
            count = batch.receive()
            if count:
                controls = batch.controls(count)
                self._sent.store_stamps(controls.key, controls.stamp_ns)
            if count < STAMP_ROWS:
                return


class Reflector:
    """Answers on all its sockets until told to stop."""

    def __init__(self, channels: Sequence[ReflectorChannel], maker: ReplyMaker) -> None:
        self.maker = maker
        self._sockets = [ReflectorSocket(channel, maker) for channel in channels]

    def run(self, stop: threading.Event) -> None:
        poll = select.poll()
        by_descriptor = {opened.channel.descriptor: opened for opened in self._sockets}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        while not stop.is_set():
            ready = poll.poll(POLL_MS)
            count = sum(by_descriptor[descriptor].serve_all() for descriptor, _ in ready)
            if ready:
                time.sleep(BUSY_TOGETHER_S if count >= BUSY_PACKETS else TOGETHER_S)

    def close(self) -> None:
        for opened in self._sockets:
            opened.channel.close()
