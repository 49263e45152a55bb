"""Kinds of captured packets that are not read, each with how to capture their TCP."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

WITHIN = "capture within the tunnel, on its own interface"


@dataclass(frozen=True, slots=True)
class Unread:
    name: str  # completes "12 packets …"
    remedy: str | None = None  # None where they carry no TCP


CUT = Unread("cut before the end of their headers", "capture with `tcpdump -s 128`")
FRAGMENTS = Unread("that are fragments of TCP packets", "capture at the sender, before it cuts them")
NO_STAMP = Unread("without a time stamp", "capture with `tcpdump -w FILE`")
NOT_TCP = Unread("of other protocols than TCP")

LINK_NAMES = {
    50: "PPP in HDLC", 104: "Cisco HDLC", 105: "IEEE 802.11", 107: "Frame Relay", 119: "IEEE 802.11 with Prism header",
    127: "IEEE 802.11 with radiotap", 149: "PKTAP", 163: "IEEE 802.11 with AVS header", 187: "Bluetooth",
    189: "USB", 192: "PPI", 195: "IEEE 802.15.4", 201: "Bluetooth", 220: "USB", 239: "NFLOG", 249: "USBPcap",
    258: "PKTAP",
}  # fmt: skip


def unread_link(number: int) -> Unread:
    name = f" ({LINK_NAMES[number]})" if number in LINK_NAMES else ""
    return Unread(
        f"of link type {number}{name}", "capture on an Ethernet, IP or loopback interface, not in monitor mode"
    )


def unread_tunnel(name: str) -> Unread:
    """The packets of a tunnel that is encrypted, or not read."""
    return Unread(f"within {name}", WITHIN)


def unread_sentences(unread: Counter[Unread]) -> list[str]:
    """A sentence for each kind that may carry TCP, the most frequent first."""
    return [f"Not read: {_counted(kind, count)}." for kind, count in unread.most_common() if kind.remedy is not None]


def no_data_reason(unread: Counter[Unread]) -> str:
    """Why a capture without TCP data is refused."""
    kinds = [_counted(kind, count) for kind, count in unread.most_common()]
    return "; ".join(["no TCP packets with data in it", *kinds])


def _counted(kind: Unread, count: int) -> str:
    packets = f"{count:,} packet{'' if count == 1 else 's'} {kind.name}"
    return packets if kind.remedy is None else f"{packets}: {kind.remedy}"
