"""Lets one address, and no other, reach a server that somebody else has written.

The server's listening socket is fetched from its process (pidfd_getfd(2), which a parent may do to its child), and gets
a filter that drops what comes from elsewhere before the server sees it; its connections inherit the filter. Where the
system does not let us, the server stays open to all: whoever started it must look at who was served.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import socket
import time
from pathlib import Path

from probes.contract import Deadline
from probes.ping.packet_filter import JUMP_IF_EQUAL, RETURN, WHOLE, Instruction, attach

SYS_PIDFD_GETFD = 438
LOAD_WORD = 0x20
AT_IP_HEADER = 0xFFF00000
"""SKF_NET_OFF of linux/filter.h: from here on offsets count from the IP header; TCP else begins behind it."""
SOURCE_AT = {4: 12, 6: 8}
LOOK_AGAIN_S = 0.005

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
    copied = _libc.syscall(SYS_PIDFD_GETFD, process, number, 0)
    if copied < 0:
        error = ctypes.get_errno()
        if error in (errno.EBADF, errno.ESRCH):
            return None
        raise OSError(error, os.strerror(error))
    try:
        found = socket.socket(fileno=copied)
    except OSError:
        os.close(copied)
        return None
    if found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return found
    found.close()
    return None
