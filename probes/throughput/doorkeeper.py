"""Lets one address, and no other, reach a server that somebody else has written.

The server's listening socket is fetched from its process (pidfd_getfd(2), which a parent may do to its child), and gets
a filter that drops what comes from elsewhere before the server sees it; its connections inherit the filter. Sockets for
datagrams inherit nothing, and are made when the client has come, one after the other: `DatagramDoor` looks for them
meanwhile. Where the system does not let us, the server stays open to all: whoever started it must look at who was
served.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from probes.contract import Deadline
from probes.ping.packet_filter import JUMP_IF_EQUAL, RETURN, WHOLE, Instruction, attach

SYS_PIDFD_GETFD = 438
LOAD_WORD = 0x20
AT_IP_HEADER = 0xFFF00000
"""SKF_NET_OFF of linux/filter.h: from here on offsets count from the IP header; TCP and UDP else begin behind it."""
SOURCE_AT = {4: 12, 6: 8}
LOOK_AGAIN_S = 0.005
LOOK_SHARP_S = 0.0002

_libc = ctypes.CDLL(None, use_errno=True)


def admit_only(address: str, pid: int, deadline: Deadline) -> bool:
    """Wait until the process listens, then let only `address` in. False where it cannot be done, or it has ended."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        while not deadline.passed and (numbers := _descriptors(pid)):
            for number in numbers:
                listening = _listening(process, number)
                if listening is not None:
                    with listening:
                        attach(listening, program(address))
                    return True
            time.sleep(LOOK_AGAIN_S)
    except OSError:
        return False
    finally:
        os.close(process)
    return False


class DatagramDoor:
    """For as long as the context is open, lets only `address` in at the sockets for datagrams that a process makes.

    It looks seldom until the process has a connection, then often: a socket takes whoever comes first, until it is
    found. Once so many sockets are bound to a sender it looks no more.
    """

    def __init__(self, address: str, pid: int, streams: int) -> None:
        self._address = address
        self._pid = pid
        self._streams = streams
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        try:
            process = os.pidfd_open(self._pid)
        except OSError:
            return
        filtered: set[int] = set()
        try:
            while not self._ended.is_set():
                has_come, bound = self._look(process, filtered)
                if bound >= self._streams:
                    return
                self._ended.wait(LOOK_SHARP_S if has_come else LOOK_AGAIN_S)
        except OSError:
            return
        finally:
            os.close(process)

    def _look(self, process: int, filtered: set[int]) -> tuple[bool, int]:
        """Filter the new sockets; whether the client has come, and how many sockets have their sender."""
        has_come, bound = False, 0
        for number in _descriptors(self._pid):
            found = _copied(process, number)
            if found is None:
                continue
            with found:
                if found.type == socket.SOCK_STREAM:
                    has_come = has_come or _is_connected(found)
                elif found.type == socket.SOCK_DGRAM and found.family in (socket.AF_INET, socket.AF_INET6):
                    inode = os.fstat(found.fileno()).st_ino
                    if inode not in filtered:
                        attach(found, program(self._address))
                        _drop_strangers(found, self._address)
                        filtered.add(inode)
                    bound += _is_connected(found)
        return has_come, bound


def _drop_strangers(found: socket.socket, address: str) -> None:
    """Take out what came before there was a filter, as far as others sent it."""
    peer = ipaddress.ip_address(address)
    with contextlib.suppress(BlockingIOError):
        while True:
            _, source = found.recvfrom(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if ipaddress.ip_address(source[0].partition("%")[0]) == peer:
                return
            found.recvfrom(1, socket.MSG_DONTWAIT)


def _is_connected(one: socket.socket) -> bool:
    try:
        one.getpeername()
    except OSError:
        return False
    return True


def program(address: str) -> list[Instruction]:
    """Pass what comes from `address`, drop the rest."""
    parsed = ipaddress.ip_address(address)
    words = [parsed.packed[at : at + 4] for at in range(0, len(parsed.packed), 4)]
    instructions: list[Instruction] = []
    for number, word in enumerate(words):
        instructions.append((LOAD_WORD, 0, 0, AT_IP_HEADER + SOURCE_AT[parsed.version] + 4 * number))
        to_drop = 2 * (len(words) - number - 1) + 1
        instructions.append((JUMP_IF_EQUAL, 0, to_drop, int.from_bytes(word)))
    return [*instructions, (RETURN, 0, 0, WHOLE), (RETURN, 0, 0, 0)]


def _descriptors(pid: int) -> list[int]:
    """The open files of a process; none once it has ended."""
    try:
        return [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _listening(process: int, number: int) -> socket.socket | None:
    """A copy of the descriptor, if it is a TCP socket that listens. Raises `OSError` where copying is not allowed."""
    found = _copied(process, number)
    if found is None:
        return None
    if found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return found
    found.close()
    return None


def _copied(process: int, number: int) -> socket.socket | None:
    """A copy of the descriptor, if it is a socket. Raises as above."""
    copied = _libc.syscall(SYS_PIDFD_GETFD, process, number, 0)
    if copied < 0:
        error = ctypes.get_errno()
        if error in (errno.EBADF, errno.ESRCH):
            return None
        raise OSError(error, os.strerror(error))
    try:
        return socket.socket(fileno=copied)
    except OSError:
        os.close(copied)
        return None
