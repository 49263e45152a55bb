"""Reads interface settings by ethtool's ioctl (<linux/ethtool.h>), without privilege. Unreported settings are None."""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
from dataclasses import dataclass

SIOCETHTOOL = 0x8946
NAME_BYTES = 16

GET_SETTINGS = 0x01
GET_DRIVER = 0x03
GET_RINGS = 0x10
GET_FLAGS = 0x25
LRO_FLAG = 1 << 15
UNKNOWN_SPEEDS = (0, 0xFFFF, 0xFFFFFFFF)

# Names as `ethtool -k` has them, with the command that reads each.
OFFLOADS = {
    "rx-checksumming": 0x14,
    "tx-checksumming": 0x16,
    "scatter-gather": 0x18,
    "tcp-segmentation-offload": 0x1E,
    "generic-segmentation-offload": 0x23,
    "generic-receive-offload": 0x2B,
}

LRO = "large-receive-offload"


@dataclass(frozen=True, slots=True)
class InterfaceSettings:
    """Settings of an interface; `offloads` lacks unreported ones."""

    driver: str | None
    speed_bps: float | None
    offloads: dict[str, bool]
    rx_ring_packets: int | None
    tx_ring_packets: int | None


def read_settings(interface: str) -> InterfaceSettings:
    """Read settings; all None for an unknown name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        driver = _ask(control, interface, GET_DRIVER, 196)
        settings = _ask(control, interface, GET_SETTINGS, 44)
        rings = _ask(control, interface, GET_RINGS, 36)
        offloads = {name: _value(control, interface, command) for name, command in OFFLOADS.items()}
        flags = _value(control, interface, GET_FLAGS)
    offloads[LRO] = None if flags is None else flags & LRO_FLAG
    return InterfaceSettings(
        driver=None if driver is None else driver[4:36].split(b"\0")[0].decode(errors="replace") or None,
        speed_bps=None if settings is None else _speed_bps(settings),
        offloads={name: bool(value) for name, value in offloads.items() if value is not None},
        rx_ring_packets=None if rings is None else struct.unpack_from("=I", rings, 20)[0],
        tx_ring_packets=None if rings is None else struct.unpack_from("=I", rings, 32)[0],
    )


def _speed_bps(settings: bytes) -> float | None:
    """Join the speed's halves in struct ethtool_cmd; None without."""
    low, high = struct.unpack_from("=H", settings, 12)[0], struct.unpack_from("=H", settings, 28)[0]
    megabits = high << 16 | low
    return None if megabits in UNKNOWN_SPEEDS else megabits * 1e6


def _value(control: socket.socket, interface: str, command: int) -> int | None:
    answer = _ask(control, interface, command, 8)
    return None if answer is None else int(struct.unpack_from("=I", answer, 4)[0])


def _ask(control: socket.socket, interface: str, command: int, size: int) -> bytes | None:
    buffer = array.array("B", struct.pack("=I", command).ljust(size, b"\0"))
    request = struct.pack("16sP16x", interface.encode()[: NAME_BYTES - 1], buffer.buffer_info()[0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(control.fileno(), SIOCETHTOOL, request)
        return buffer.tobytes()
    return None
