"""Anonymous network namespaces, which exist as long as the lab holds a file descriptor. Needs root or user
namespaces."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from probes.lab.settings import LabError

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
TUN_DEVICE = "/dev/net/tun"
WAN_INTERFACE = "wan0"
LAB_NETWORKS = {4: "10.77.0.0/16", 6: "fd77::/48"}
TUN_QUEUE_PACKETS = 2000
ALL_GROUPS = "0 2147483647"
ONLY_GROUP_OF_A_USER_NAMESPACE = "0 0"

_libc = ctypes.CDLL(None, use_errno=True)


class NamespacesUnavailable(LabError):
    """Network namespaces are unavailable here; the message gives the reason and a fix."""


class SiteNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """A site's namespace by descriptors."""

    name: str
    addresses: tuple[str, ...]
    net_fd: int
    tun_fd: int  # of its `wan0`
    centre_listener: socket.socket | None = None  # leads to the centre


def repository_environment() -> dict[str, str]:
    """An environment with this package in PYTHONPATH."""
    root = str(Path(__file__).resolve().parents[2])
    earlier = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}:{earlier}" if earlier else root}


def namespaces_available() -> str | None:
    """Check in a child process. Returns None, or why they are unavailable, with a fix."""
    check = subprocess.run(
        [sys.executable, "-m", "probes.lab.namespaces"],
        env=repository_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if check.returncode == 0:
        return None
    return check.stdout.strip() or check.stderr.strip() or f"the check exited with status {check.returncode}"


def gain_namespace_rights() -> int | None:
    """Make this single-threaded process able to create namespaces; returns a new user namespace's descriptor, or None.

    Raises `NamespacesUnavailable`.
    """
    try:
        _unshare(CLONE_NEWNET)
        return None
    except OSError as error:
        if error.errno != errno.EPERM:
            raise NamespacesUnavailable(f"cannot create a network namespace: {error.strerror}") from error
    return _enter_new_user_namespace()


def build_site(
    name: str, addresses: Sequence[str], *, routers: Sequence[str] = (), centre_port: int | None = None
) -> SiteNamespace:
    """Create a namespace; leaves this process inside it. `centre_port` listens on its loopback.

    Reverse path filters would drop ICMP errors without routes to `routers`. Raises `LabError`.
    """
    try:
        _unshare(CLONE_NEWNET)
    except OSError as error:
        raise NamespacesUnavailable(f'site "{name}": no network namespace: {error.strerror}') from error
    net_fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    tun_fd = _open_tun()
    usable = [address for address in addresses if ":" not in address or Path("/proc/sys/net/ipv6").is_dir()]
    _configure(name, usable, routers)
    _allow_ping()
    listener = None if centre_port is None else _listen(centre_port, has_ipv4=any(":" not in each for each in usable))
    return SiteNamespace(name=name, addresses=tuple(usable), net_fd=net_fd, tun_fd=tun_fd, centre_listener=listener)


def _listen(port: int, *, has_ipv4: bool) -> socket.socket:
    if has_ipv4:
        return socket.create_server(("127.0.0.1", port), backlog=64)
    return socket.create_server(("::1", port), family=socket.AF_INET6, backlog=64)


def enter(net_fd: int, user_fd: int | None = None) -> None:
    """Move this single-threaded process into these namespaces. Raises `LabError`."""
    for fd, flag, name in ((user_fd, CLONE_NEWUSER, "user"), (net_fd, CLONE_NEWNET, "network")):
        if fd is None:
            continue
        if _libc.setns(fd, flag) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise LabError(f"cannot enter the site's {name} namespace: {reason}; run as the user who started the lab")


def _unshare(kinds: int) -> None:
    if _libc.unshare(kinds) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _enter_new_user_namespace() -> int:
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWUSER | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        # Ubuntu lets the call succeed but removes the capabilities: creating a namespace inside shows it.
        _unshare(CLONE_NEWNET)
    except OSError as error:
        raise NamespacesUnavailable(
            f"no root (CAP_SYS_ADMIN and CAP_NET_ADMIN), and no user namespace either: {error.strerror}; "
            + _fix(_blocking_sysctls())
        ) from error
    return os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)


def _blocking_sysctls() -> list[str]:
    settings = {
        "kernel.unprivileged_userns_clone": ("0", "1"),
        "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
        "user.max_user_namespaces": ("0", "10000"),
    }
    blocking = []
    for name, (refusing, allowing) in settings.items():
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.is_file() and path.read_text().strip() == refusing:
            blocking.append(f"{name}={allowing}")
    return blocking


def _fix(settings: Sequence[str]) -> str:
    if settings:
        return f"run as root, or allow it: sysctl -w {' '.join(settings)}"
    return "run as root; in a container, start it with --cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun"


def _open_tun() -> int:
    try:
        fd = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NamespacesUnavailable(
            f"{TUN_DEVICE}: {error.strerror}; load it with `modprobe tun`, grant this user read and write access, "
            "or pass it to the container with --device /dev/net/tun"
        ) from error
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", WAN_INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
    except OSError as error:
        os.close(fd)
        raise NamespacesUnavailable(
            f"{TUN_DEVICE}: no device {WAN_INTERFACE}: {error.strerror}; needs CAP_NET_ADMIN"
        ) from error
    return fd


def _configure(name: str, addresses: Sequence[str], routers: Sequence[str]) -> None:
    lines = ["link set lo up", f"link set {WAN_INTERFACE} up txqueuelen {TUN_QUEUE_PACKETS}"]
    for address in addresses:
        family, bits = (6, "128 nodad") if ":" in address else (4, "32")
        lines.append(f"addr add {address}/{bits} dev {WAN_INTERFACE}")
        lines.append(f"route add {LAB_NETWORKS[family]} dev {WAN_INTERFACE} src {address}")
        others = (router for router in routers if (":" in router) == (":" in address))
        lines += [f"route add {router}/{bits.split()[0]} dev {WAN_INTERFACE} src {address}" for router in others]
    if any(":" in address for address in addresses):
        # A namespace inherits the machine's setting, which may be off; and there are no neighbours to solicit.
        _write_settings(
            {"all/disable_ipv6": "0", f"{WAN_INTERFACE}/disable_ipv6": "0", f"{WAN_INTERFACE}/addr_gen_mode": "1"}
        )
    command = ip_tool()
    done = subprocess.run([command, "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f'site "{name}": `{command} -batch` failed: {done.stderr.strip()}')


def ip_tool() -> str:
    """Path of `ip`. Raises `LabError` if it is not installed."""
    path = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise NamespacesUnavailable("`ip` not found: install the package iproute2")
    return path


def _write_settings(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        Path("/proc/sys/net/ipv6/conf", name).write_text(value)


def _allow_ping() -> None:
    path = Path("/proc/sys/net/ipv4/ping_group_range")
    try:
        path.write_text(ALL_GROUPS)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise NamespacesUnavailable(f"{path}: {error.strerror}; /proc/sys must be writable") from error
        path.write_text(ONLY_GROUP_OF_A_USER_NAMESPACE)


def _check() -> int:
    try:
        gain_namespace_rights()
        build_site("trial", ["10.77.1.1", "fd77:0:0:1::1"])
    except LabError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_check())
