"""Two namespaces joined by a veth pair without relay, for fast transfers. Needs root and `unshare`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from probes.contract import Deadline
from probes.lab.namespaces import NamespacesUnavailable, SiteNamespace, enter, ip_tool
from probes.lab.settings import LabError

ADDRESSES = ("10.78.0.1", "10.78.0.2")
PREFIX_BITS = 30
INTERFACES = ("direct0", "direct1")
READY_S = 10.0
POLL_S = 0.01

Answer = TypeVar("Answer")


class DirectLink:
    """A link between end 0 and end 1, at `ADDRESSES`, while the context is open."""

    def __init__(self, mtu_bytes: int = 1500) -> None:
        self._mtu_bytes = mtu_bytes
        self._stack = contextlib.ExitStack()
        self._threads: list[ThreadPoolExecutor] = []

    def __enter__(self) -> Self:
        """Raises `LabError`."""
        with contextlib.ExitStack() as stack:
            holders = [stack.enter_context(_namespace()) for _ in ADDRESSES]
            self._threads = [stack.enter_context(_thread_in(holder.pid)) for holder in holders]
            _ip("link", "add", "name", INTERFACES[0], "netns", str(holders[0].pid), "type", "veth",
                "peer", "name", INTERFACES[1], "netns", str(holders[1].pid))  # fmt: skip
            for end in range(len(ADDRESSES)):
                self.submit(end, self._configure, end).result()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def submit(self, end: int, function: Callable[..., Answer], *arguments: Any) -> Future[Answer]:
        """Run a function in the namespace of an end, after those submitted before."""
        return self._threads[end].submit(function, *arguments)

    def set_sysctl(self, end: int, name: str, value: str) -> None:
        """Set a sysctl of an end. Raises `OSError` for a sysctl outside the namespace."""
        self.submit(end, Path("/proc/sys", name.replace(".", "/")).write_text, value).result()

    def set_mtu(self, end: int, mtu_bytes: int) -> None:
        """Set the MTU of an end's interface. Raises `LabError`."""
        self.submit(end, _ip, "link", "set", INTERFACES[end], "mtu", str(mtu_bytes)).result()

    def _configure(self, end: int) -> None:
        _ip("link", "set", "lo", "up")
        _ip("addr", "add", f"{ADDRESSES[end]}/{PREFIX_BITS}", "dev", INTERFACES[end])
        _ip("link", "set", INTERFACES[end], "up", "mtu", str(self._mtu_bytes))


def join_sites(number: int, ends: Sequence[SiteNamespace], mtu_bytes: int) -> None:
    """Join two sites by a veth pair; leaves this process in the last site's namespace. Raises `LabError`."""
    name = f"direct{number}"
    enter(ends[0].net_fd)
    _ip("link", "add", "name", name, "type", "veth", "peer", "name", name, "netns",
        f"/proc/{os.getpid()}/fd/{ends[1].net_fd}")  # fmt: skip
    for site, other in (tuple(ends), tuple(reversed(ends))):
        enter(site.net_fd)
        _ip("link", "set", name, "up", "mtu", str(mtu_bytes))
        for own, far in zip(site.addresses, other.addresses, strict=True):
            if ":" in own:
                # Neighbours are asked for an address of the interface itself, unlike with ARP.
                _ip("addr", "add", f"{own}/128", "dev", name, "nodad")
            _ip("route", "add", f"{far}/{128 if ':' in far else 32}", "dev", name, "src", own)


@contextlib.contextmanager
def _namespace() -> Any:
    own = Path("/proc/self/ns/net").stat().st_ino
    try:
        holder = subprocess.Popen(
            ["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise NamespacesUnavailable("`unshare` not found: install the package util-linux") from error
    try:
        deadline = Deadline(READY_S)
        while holder.poll() is None and Path(f"/proc/{holder.pid}/ns/net").stat().st_ino == own:
            if deadline.passed:
                raise LabError(f"no network namespace within {READY_S:g} s")
            time.sleep(POLL_S)
        if holder.poll() is not None:
            raise NamespacesUnavailable("cannot create a network namespace; run as root")
        yield holder
    finally:
        holder.kill()
        holder.wait()


def _thread_in(pid: int) -> ThreadPoolExecutor:
    def move() -> None:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter(descriptor)
        finally:
            os.close(descriptor)

    return ThreadPoolExecutor(max_workers=1, initializer=move)


def _ip(*arguments: str) -> None:
    done = subprocess.run([ip_tool(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
