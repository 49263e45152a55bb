"""Restricts a child process's sockets to source addresses, with a socket filter (BPF) on a copy (pidfd_getfd(2)).

If not permitted, the server stays open, and the caller must check the served client.
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
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from probes.contract import Deadline
from probes.packets.icmp.packet_filter import AND, JUMP_IF_EQUAL, LOAD_BYTE, RETURN, WHOLE, Instruction, attach
from probes.threads import ProbeThread

SYS_PIDFD_GETFD = 438
LOAD_WORD = 0x20
# SKF_NET_OFF of linux/filter.h: offsets from the IP header; TCP's and UDP's default is after it.
AT_IP_HEADER = 0xFFF00000
SOURCE_AT = {4: 12, 6: 8}
VERSION_BITS = 0xF0
POLL_S = 0.005
FAST_POLL_S = 0.0002

_libc = ctypes.CDLL(None, use_errno=True)


def filter_listener(program: Sequence[Instruction], pid: int, deadline: Deadline) -> bool:
    """Filter the socket once it listens. False if not permitted or ended."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        while not deadline.passed and (numbers := _descriptors(pid)):
            for number in numbers:
                listener = _listening_socket(process, number)
                if listener is not None:
                    with listener:
                        attach(listener, program)
                    return True
            time.sleep(POLL_S)
    except OSError:
        return False
    finally:
        os.close(process)
    return False


class DatagramFilter:
    """Filters UDP sockets that a process creates, by polling within the context.

    Polling is fast once a TCP connection exists, since unfiltered sockets accept the first sender.
    """

    def __init__(self, address: str, pid: int, streams: int) -> None:
        self._address = address
        self._pid = pid
        self._streams = streams
        self._ended = threading.Event()
        self._thread = ProbeThread(target=self._filter_until_exit, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.finish()

    def _filter_until_exit(self) -> None:
        try:
            process = os.pidfd_open(self._pid)
        except OSError:
            return
        filtered: set[int] = set()
        try:
            while not self._ended.is_set():
                has_client, bound = self._filter_new_sockets(process, filtered)
                # Each stream has its socket: no more will come.
                if bound >= self._streams:
                    return
                self._ended.wait(FAST_POLL_S if has_client else POLL_S)
        except OSError:
            return
        finally:
            os.close(process)

    def _filter_new_sockets(self, process: int, filtered: set[int]) -> tuple[bool, int]:
        has_client, bound = False, 0
        for number in _descriptors(self._pid):
            copy = _copy_socket(process, number)
            if copy is None:
                continue
            with copy:
                if copy.type == socket.SOCK_STREAM:
                    has_client = has_client or _is_connected(copy)
                elif copy.type == socket.SOCK_DGRAM and copy.family in (socket.AF_INET, socket.AF_INET6):
                    inode = os.fstat(copy.fileno()).st_ino
                    if inode not in filtered:
                        attach(copy, source_program(self._address))
                        _drop_other_sources(copy, self._address)
                        filtered.add(inode)
                    bound += _is_connected(copy)
        return has_client, bound


def _drop_other_sources(sock: socket.socket, address: str) -> None:
    """Discard other sources' datagrams queued before the filter."""
    peer = ipaddress.ip_address(address)
    with contextlib.suppress(BlockingIOError):
        while True:
            _, source = sock.recvfrom(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if ipaddress.ip_address(source[0].partition("%")[0]) == peer:
                return
            sock.recvfrom(1, socket.MSG_DONTWAIT)


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def source_program(address: str) -> list[Instruction]:
    parsed = ipaddress.ip_address(address)
    words = [parsed.packed[at : at + 4] for at in range(0, len(parsed.packed), 4)]
    instructions: list[Instruction] = []
    for number, word in enumerate(words):
        instructions.append((LOAD_WORD, 0, 0, AT_IP_HEADER + SOURCE_AT[parsed.version] + 4 * number))
        to_drop = 2 * (len(words) - number - 1) + 1
        instructions.append((JUMP_IF_EQUAL, 0, to_drop, int.from_bytes(word)))
    return [*instructions, (RETURN, 0, 0, WHOLE), (RETURN, 0, 0, 0)]


def networks_program(admitted: Sequence[str], forbidden: Sequence[str]) -> list[Instruction]:
    """Pass packets from admitted networks outside forbidden ones."""
    instructions: list[Instruction] = []
    for networks, verdict in ((forbidden, 0), (admitted, WHOLE)):
        for network in networks:
            instructions += _return_within(network, verdict)
    return [*instructions, (RETURN, 0, 0, 0)]


def _return_within(network: str, verdict: int) -> list[Instruction]:
    """Return `verdict` for packets from the network, else continue."""
    parsed = ipaddress.ip_network(network)
    address, mask = parsed.network_address.packed, parsed.netmask.packed
    checks: list[tuple[Instruction, int, int]] = [
        ((LOAD_BYTE, 0, 0, AT_IP_HEADER), VERSION_BITS, parsed.version << 4),
    ]
    for at in range(0, len(address), 4):
        load = LOAD_WORD, 0, 0, AT_IP_HEADER + SOURCE_AT[parsed.version] + at
        checks.append((load, int.from_bytes(mask[at : at + 4]), int.from_bytes(address[at : at + 4])))
    # Words that the mask leaves out match every address.
    checks = [check for check in checks if check[1]]
    instructions: list[Instruction] = []
    for number, (load, bits, expected) in enumerate(checks):
        to_next_network = 3 * (len(checks) - number - 1) + 1
        instructions += [load, (AND, 0, 0, bits), (JUMP_IF_EQUAL, 0, to_next_network, expected)]
    return [*instructions, (RETURN, 0, 0, verdict)]


def _descriptors(pid: int) -> list[int]:
    try:
        return [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _listening_socket(process: int, number: int) -> socket.socket | None:
    copy = _copy_socket(process, number)
    if copy is None:
        return None
    if copy.type == socket.SOCK_STREAM and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return copy
    copy.close()
    return None


def _copy_socket(process: int, number: int) -> socket.socket | None:
    descriptor = _libc.syscall(SYS_PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        error = ctypes.get_errno()
        if error in (errno.EBADF, errno.ESRCH):
            return None
        raise OSError(error, os.strerror(error))
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        return None
