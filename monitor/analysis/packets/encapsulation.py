"""Find the innermost IP header of a frame, behind link headers and unencrypted tunnels: RFC 2516 (PPPoE), 2784 and 2890
(GRE), 3032 (MPLS), 7348 (VXLAN), 8926 (Geneve), draft-foschiano-erspan."""

from __future__ import annotations

import struct
from collections.abc import Callable

from monitor.analysis.packets.unread import CUT, NOT_TCP, Unread, unread_tunnel

ETHERNET, PPP, RAW, RAW_BSD, NULL, LOOP, COOKED, COOKED_2, IPV4, IPV6 = 1, 9, 101, 12, 0, 108, 113, 276, 228, 229

IP_OF_4, IP_OF_6, VLAN, VLAN_OF_PROVIDER, OLD_VLAN = 0x0800, 0x86DD, 0x8100, 0x88A8, 0x9100
MPLS, MPLS_MULTICAST, PPPOE, BRIDGED, ERSPAN, ERSPAN_3 = 0x8847, 0x8848, 0x8864, 0x6558, 0x88BE, 0x22EB
# A smaller number than any EtherType is the length of an IEEE 802.3 frame with an LLC header.
MACSEC, LONGEST_802_3 = 0x88E5, 1535
SNAP = b"\xaa\xaa\x03\x00\x00\x00"
OTHER_TYPE = 0xFFFF
PPP_TYPES = {0x0021: IP_OF_4, 0x0057: IP_OF_6}

IP_IN_IP, TCP, UDP, IPV6_IN_IP, GRE, ESP, AH, L2TP = 4, 6, 17, 41, 47, 50, 51, 115
EXTENSION_HEADERS = {0, 43, 60}
# Linux took 8472 for VXLAN before it had a number; Flannel and Cilium still use it.
VXLAN_PORTS, GENEVE_PORT = (4789, 8472), 6081
UDP_TUNNELS = {1194: "OpenVPN", 1701: "L2TP", 2152: "GTP-U", 4500: "IPsec", 4790: "VXLAN-GPE", 51820: "WireGuard"}
IP_TUNNELS = {ESP: "IPsec", AH: "IPsec", L2TP: "L2TP"}
GRE_CHECKSUM, GRE_ROUTING, GRE_KEY, GRE_SEQUENCE, GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007

# EtherType and offset of the next header; or the innermost IP header's offset; or a kind not read.
Inner = tuple[int, int] | int | Unread


def is_link_read(link: int) -> bool:
    return link in LINKS


def ip_offset(link: int, frame: bytes) -> int | Unread:
    try:
        inner: Inner = LINKS[link](frame)
        while isinstance(inner, tuple):
            ether_type, at = inner
            inner = READERS.get(ether_type, _llc if ether_type <= LONGEST_802_3 else _not_tcp)(frame, at)
    except (struct.error, IndexError):
        return CUT
    return inner


def _number(frame: bytes, at: int) -> int:
    return int(struct.unpack_from(">H", frame, at)[0])


def _not_tcp(frame: bytes, at: int) -> Inner:
    return NOT_TCP


def _llc(frame: bytes, at: int) -> Inner:
    return (_number(frame, at + 6), at + 8) if frame[at : at + 6] == SNAP else NOT_TCP


def _vlan(frame: bytes, at: int) -> Inner:
    return _number(frame, at + 2), at + 4


def _ethernet(frame: bytes, at: int = 0) -> Inner:
    return _number(frame, at + 12), at + 14


def _mpls(frame: bytes, at: int) -> Inner:
    while not frame[at + 2] & 1:
        at += 4
    # Its last label alone says what follows: IP, or a wire that begins with a word of zeros.
    return _any_ip(frame, at + 4) if frame[at + 4] >> 4 else unread_tunnel("an MPLS pseudowire")


def _pppoe(frame: bytes, at: int) -> Inner:
    return _ppp(frame, at + 6)


def _ppp(frame: bytes, at: int = 0) -> Inner:
    at += 2 if _number(frame, at) == 0xFF03 else 0
    return PPP_TYPES.get(_number(frame, at), OTHER_TYPE), at + 2


def _any_ip(frame: bytes, at: int = 0) -> Inner:
    version = frame[at] >> 4
    if version == 4:
        header_bytes, protocol, fragment = max(20, (frame[at] & 0x0F) * 4), frame[at + 9], _number(frame, at + 6)
        is_later = bool(fragment & 0x1FFF)
    elif version == 6:
        protocol, header_bytes, is_later = frame[at + 6], 40, False
        while protocol in EXTENSION_HEADERS and at + header_bytes + 1 < len(frame):
            protocol, header_bytes = frame[at + header_bytes], header_bytes + 8 + frame[at + header_bytes + 1] * 8
    else:
        return NOT_TCP
    # The first fragment of a tunnel's packet has all headers; later ones have data that is counted with it.
    if is_later or protocol not in TUNNELS:
        return at if protocol not in IP_TUNNELS else unread_tunnel(IP_TUNNELS[protocol])
    inner = TUNNELS[protocol](frame, at + header_bytes)
    return at if inner is None else inner


def _ip_in_ip(frame: bytes, at: int) -> Inner:
    return IP_OF_4, at


def _udp(frame: bytes, at: int) -> Inner | None:
    """The packet within a tunnel over UDP; None for other UDP."""
    source, destination = struct.unpack_from(">HH", frame, at)
    if destination in VXLAN_PORTS and frame[at + 8] & 0x08:
        return BRIDGED, at + 16
    if destination == GENEVE_PORT:
        return _number(frame, at + 10), at + 16 + (frame[at + 8] & 0x3F) * 4
    tunnel = UDP_TUNNELS.get(destination) or UDP_TUNNELS.get(source)
    return None if tunnel is None else unread_tunnel(tunnel)


def _gre(frame: bytes, at: int) -> Inner:
    flags, ether_type = struct.unpack_from(">HH", frame, at)
    if flags & (GRE_ROUTING | GRE_VERSION):
        return unread_tunnel("PPTP" if flags & GRE_VERSION else "GRE with routing")
    begin = at + 4 + 4 * sum(bool(flags & part) for part in (GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE))
    if ether_type == ERSPAN:
        return BRIDGED, begin + (8 if flags & GRE_SEQUENCE else 0)
    return unread_tunnel("ERSPAN of type III") if ether_type == ERSPAN_3 else (ether_type, begin)


LINKS: dict[int, Callable[[bytes], Inner]] = {
    ETHERNET: _ethernet,
    PPP: _ppp,
    **dict.fromkeys((RAW, RAW_BSD, IPV4, IPV6), _any_ip),
    **dict.fromkeys((NULL, LOOP), lambda frame: _any_ip(frame, 4)),
    COOKED: lambda frame: (_number(frame, 14), 16),
    COOKED_2: lambda frame: (_number(frame, 0), 20),
}
READERS: dict[int, Callable[[bytes, int], Inner]] = {
    **dict.fromkeys((IP_OF_4, IP_OF_6), _any_ip),
    **dict.fromkeys((VLAN, VLAN_OF_PROVIDER, OLD_VLAN), _vlan),
    **dict.fromkeys((MPLS, MPLS_MULTICAST), _mpls),
    PPPOE: _pppoe,
    BRIDGED: _ethernet,
    MACSEC: lambda frame, at: unread_tunnel("MACsec"),
}
TUNNELS: dict[int, Callable[[bytes, int], Inner | None]] = {
    IP_IN_IP: _ip_in_ip,
    IPV6_IN_IP: _ip_in_ip,
    GRE: _gre,
    UDP: _udp,
}
