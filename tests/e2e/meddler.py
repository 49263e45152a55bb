"""A proxy before the centre that fails on command: between the lab's sites and the web server's socket.

The web server listens on a file in the stack's folder; it is renamed, and the proxy listens under its name. Each batch
is recorded: its number, its number of results, and the centre's answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec
import zstandard

from probes.site.wire import Batch
from probes.supervision.socket_folders import socket_dir

RESULTS = b"POST /api/agent/results "


class Fault(Enum):
    """A fault of a single delivery."""

    ANSWER_LOST = "the centre's answer is lost"
    CUT = "half of the batch arrives"


@dataclass(frozen=True, slots=True)
class RecordedDelivery:
    """A delivery that passed through the proxy."""

    spool: str
    number: int
    results: int
    status: int
    fault: Fault | None


class Meddler:
    """Forwards all deliveries except those with a fault; `arm` sets a fault for the next delivery."""

    def __init__(self, centre: Path) -> None:
        self._centre = centre
        self._lock = threading.Lock()
        self._armed: Fault | None = None
        self.passed: list[RecordedDelivery] = []

    def arm(self, fault: Fault) -> None:
        with self._lock:
            self._armed = fault

    def deliveries(self, fault: Fault) -> list[RecordedDelivery]:
        """The delivery with the fault and all later deliveries of its spool; empty before it happened."""
        met = [place for place, delivery in enumerate(self.passed) if delivery.fault is fault]
        return (
            [delivery for delivery in self.passed[met[0] :] if delivery.spool == self.passed[met[0]].spool]
            if met
            else []
        )

    def serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener is closed in the end
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._pass_one, args=(connection,), daemon=True).start()

    def _pass_one(self, site: socket.socket) -> None:
        """Forward a request of a site and its answer: agents open a connection for each."""
        with contextlib.suppress(OSError), site, socket.socket(socket.AF_UNIX) as centre:
            centre.connect(str(self._centre))
            head, body = _read(site)
            fault = self._take_fault(body) if head.startswith(RESULTS) and body else None
            centre.sendall(head + (body[: len(body) // 2] if fault is Fault.CUT else body))
            if fault is Fault.CUT:
                centre.shutdown(socket.SHUT_WR)
            answer_head, answer_body = _read(centre)
            if head.startswith(RESULTS):
                self._note(body, int(answer_head.split()[1]), fault)
            if fault is not Fault.ANSWER_LOST:
                site.sendall(answer_head + answer_body)

    def _take_fault(self, body: bytes) -> Fault | None:
        """The armed fault; a batch that is to be truncated must have results to be halved."""
        with self._lock:
            if self._armed is Fault.CUT and len(_batch(body).results) < 2:
                return None
            armed, self._armed = self._armed, None
            return armed

    def _note(self, body: bytes, status: int, fault: Fault | None) -> None:
        batch = _batch(body)
        self.passed.append(RecordedDelivery(batch.spool, batch.number, len(batch.results), status, fault))


def _batch(body: bytes) -> Batch:
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompressobj().decompress(body), type=Batch)


def _read(connection: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of a message, by its own content length."""
    data = b""
    while b"\r\n\r\n" not in data and (part := connection.recv(65536)):
        data += part
    head, separator, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0) and (part := connection.recv(65536)):
        body += part
    return head + separator, body


@contextlib.contextmanager
def meddling(data: Path) -> Iterator[Meddler]:
    """Run the proxy before the stack in this folder."""
    name = socket_dir(data) / "web.sock"
    centre = name.with_name("web.centre.sock")
    name.rename(centre)
    meddler = Meddler(centre)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(name))
        name.chmod(0o777)
        listener.listen()
        threading.Thread(target=meddler.serve, args=(listener,), daemon=True).start()
        yield meddler
    finally:
        listener.close()
        centre.replace(name)
