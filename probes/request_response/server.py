"""A server that answers peers' blocks, within bounds; other hosts get no byte."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import OrderedDict
from contextlib import closing, suppress
from dataclasses import dataclass, field

from probes.contract import Deadline, NotPermitted, ProbeError
from probes.packets.addresses import FAMILY
from probes.packets.egress import ANY, Egress, open_within, prepare
from probes.peers import Peers
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.protocol import (
    CHUNK_BYTES,
    ORDER_BYTES,
    Order,
    OrderAnswer,
    decode_order,
    encode_ending,
    make_greeting,
    receive_exactly,
    receive_into,
    retransmits_of,
    send_all,
    without_delay,
)

logger = logging.getLogger(__name__)

SET_UP_S = 5.0
LONGEST_CONNECTION_S = 300.0
# Longer than a client may be idle between blocks.
LONGEST_PAUSE_S = 65.0
ACCEPT_S = 0.5
BACKLOG = 16
HOUR_S = 3600.0
MOST_PEERS = 10_000
MAPPED = "::ffff:"


@dataclass(slots=True)
class VolumeCap:
    """Limits bytes exchanged with each address to `per_hour`, as a bucket that fills evenly."""

    per_hour: float
    _used: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, address: str, amount: int, now_s: float) -> bool:
        """Whether so many bytes are permitted; counts them if so."""
        with self._lock:
            used, at_s = self._used.pop(address, (0.0, now_s))
            left = max(0.0, used - (now_s - at_s) * self.per_hour / HOUR_S)
            is_permitted = left + amount <= self.per_hour
            self._used[address] = (left + amount if is_permitted else left, now_s)
            if len(self._used) > MOST_PEERS:
                self._used.popitem(last=False)
            return is_permitted


@dataclass(slots=True)
class BlockServer:
    """Answers orders of `peers` within the limits."""

    peers: Peers
    limits: RequestResponseLimits
    volumes: VolumeCap = field(init=False)
    _places: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        self.volumes = VolumeCap(self.limits.max_bytes_per_peer_per_hour)
        self._places = threading.BoundedSemaphore(self.limits.max_connections)

    def run(self, listener: socket.socket, stop: threading.Event) -> None:
        """Accept until `stop` is set; closes the listener."""
        with closing(listener):
            listener.settimeout(ACCEPT_S)
            while not stop.is_set():
                try:
                    connection, address = listener.accept()
                except TimeoutError:
                    continue
                except OSError as error:  # the client has gone already, or this process has no descriptor left
                    logger.warning("request-response server: %s", error)
                    stop.wait(ACCEPT_S)
                    continue
                threading.Thread(
                    target=self.serve, args=(connection, address[0], stop), name="request-response", daemon=True
                ).start()

    def serve(self, connection: socket.socket, address: str, stop: threading.Event) -> None:
        """Serve and close a connection, whatever it sends."""
        with closing(connection), suppress(OSError):
            host = address.removeprefix(MAPPED).partition("%")[0]
            family = 6 if ":" in host else 4
            admission = self.peers.find(socket.inet_pton(FAMILY[family], host))
            if admission is None:
                return
            deadline = Deadline(SET_UP_S)
            greeting = make_greeting()
            send_all(connection, greeting, deadline)
            order = decode_order(receive_exactly(connection, ORDER_BYTES, deadline), greeting, admission.key)
            if order is None:
                send_all(connection, bytes([OrderAnswer.WRONG_KEY]), deadline)
            elif not self.limits.permits_order(order):
                send_all(connection, bytes([OrderAnswer.TOO_LARGE]), deadline)
            elif not self._places.acquire(blocking=False):
                send_all(connection, bytes([OrderAnswer.BUSY]), deadline)
            else:
                try:
                    self._answer(connection, host, order, stop)
                finally:
                    self._places.release()

    def _answer(self, connection: socket.socket, host: str, order: Order, stop: threading.Event) -> None:
        deadline = Deadline(LONGEST_CONNECTION_S)
        if not self.volumes.take(host, order.payload_bytes, time.monotonic()):
            send_all(connection, bytes([OrderAnswer.BUSY]), deadline)
            return
        without_delay(connection)
        # Random, so that nothing on the way can compress it.
        response = memoryview(os.urandom(order.response_bytes))
        buffer = memoryview(bytearray(min(order.request_bytes, CHUNK_BYTES)))
        send_all(connection, bytes([OrderAnswer.GO]), deadline)
        served = 0
        while served < order.transactions and not stop.is_set() and not deadline.passed:
            until = Deadline(min(LONGEST_PAUSE_S, deadline.remaining_s))
            connection.settimeout(until.remaining_s)
            if not connection.recv(1, socket.MSG_PEEK):
                break
            receive_into(connection, buffer, order.request_bytes, until)
            send_all(connection, response, until)
            served += 1
        send_all(connection, encode_ending(served, retransmits_of(connection)), deadline)


def open_listener(port: int, egress: Egress = ANY) -> socket.socket:
    """Listen on both families, or only IPv4. Raises ProbeError."""

    def opening() -> socket.socket:
        both = socket.has_dualstack_ipv6()
        opened = socket.socket(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if both:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            prepare(opened, 6 if both else 4, egress)
            opened.bind(("", port))
            opened.listen(BACKLOG)
        except BaseException:
            opened.close()
            raise
        return opened

    try:
        return open_within(egress, opening)
    except PermissionError as error:
        raise NotPermitted(f"TCP port {port} may not be opened; use a port from 1024 on, or run as root") from error
    except OSError as error:
        raise ProbeError(f"TCP port {port}: {error.strerror}") from error
