"""A scenario for each verdict: settings of the lab's path, of the hosts, of the tool."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from monitor.analysis.transfer import Verdict
from tests.lab import RunningLab

SENDER, RECEIVER = "bern", "rome"
RTT_MS = 40
DISK_BYTES_S = 1_000_000
POLICED_BYTES_S = 1_250_000
SMALL_BUFFER_BYTES = 131_072


@dataclass(frozen=True, slots=True)
class Scenario:
    """`path` is set from sender to receiver over a clean path, `around` is active during the test, `client` is for
    iperf3. The congestion control is not left to the machine's default.

    `local` tests run over the sender's own loopback, where only its processors limit.
    """

    verdict: Verdict
    path: tuple[str, ...] = ()
    around: Callable[[RunningLab], AbstractContextManager[tuple[str, ...]]] = lambda lab: nullcontext(())
    client: tuple[str, ...] = ()
    control: str = "cubic"
    local: bool = False
    streams: int = 1
    duration_s: int = 5


def at(lab: RunningLab, site: str, *argv: str) -> None:
    """Run a command at a site; fails the test if that does."""
    done = lab.exec(site, *argv)
    assert done.returncode == 0, done.stderr


@contextmanager
def kernel_setting(lab: RunningLab, site: str, name: str, value: str) -> Iterator[tuple[str, ...]]:
    """A sysctl of a site's namespace."""
    before = lab.exec(site, "sysctl", "-n", name).stdout.strip()
    at(lab, site, "sysctl", "-qw", f"{name}={value}")
    try:
        yield ()
    finally:
        at(lab, site, "sysctl", "-qw", f"{name}={before}")


def policer(bytes_s: int, burst_kbytes: int = 100) -> Callable[[RunningLab], AbstractContextManager[tuple[str, ...]]]:
    """A token bucket at the receiver. In nftables it holds a second of tokens plus the burst."""
    firewall = f"""
table ip police {{
  chain arriving {{
    type filter hook input priority 0;
    tcp dport 5201 limit rate over {bytes_s} bytes/second burst {burst_kbytes} kbytes drop
  }}
}}
"""

    @contextmanager
    def police(lab: RunningLab) -> Iterator[tuple[str, ...]]:
        at(lab, RECEIVER, "nft", firewall)
        try:
            yield ()
        finally:
            at(lab, RECEIVER, "nft", "delete table ip police")

    return police


@contextmanager
def slow_disk(lab: RunningLab) -> Iterator[tuple[str, ...]]:
    """A file limited to `DISK_BYTES_S`: a pipe, read in small steady steps. Gives the server's options."""
    path = lab.run_dir / "disk"
    os.mkfifo(path)
    end, pipe = threading.Event(), os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    step = 16_384

    def read() -> None:
        while not end.wait(step / DISK_BYTES_S):
            try:
                os.read(pipe, step)
            except BlockingIOError:
                continue

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield ("-F", str(path))
    finally:
        end.set()
        reader.join()
        os.close(pipe)
        path.unlink()


def small_receive_buffer(lab: RunningLab) -> AbstractContextManager[tuple[str, ...]]:
    return kernel_setting(lab, RECEIVER, "net.ipv4.tcp_rmem", f"4096 65536 {SMALL_BUFFER_BYTES}")


def small_send_buffer(lab: RunningLab) -> AbstractContextManager[tuple[str, ...]]:
    return kernel_setting(lab, SENDER, "net.ipv4.tcp_wmem", f"4096 65536 {SMALL_BUFFER_BYTES}")


BEYOND: dict[str, Scenario] = {
    "four_streams": Scenario(
        Verdict.WINDOW_LIMITED, around=small_receive_buffer, path=("--rate-mbps", "100"), streams=4
    ),
    "bbr": Scenario(Verdict.BOTTLENECK_QUEUE, path=("--rate-mbps", "20"), control="bbr"),
    "bbr_short_queue": Scenario(
        Verdict.BOTTLENECK_QUEUE, path=("--rate-mbps", "50", "--queue-ms", "20"), control="bbr"
    ),
    "bbr_loss": Scenario(Verdict.LOSS, path=("--rate-mbps", "30", "--loss", "0.2"), control="bbr", duration_s=10),
    "short_queue": Scenario(Verdict.BOTTLENECK_QUEUE, path=("--rate-mbps", "20", "--queue-ms", "10")),
    "heavy_loss": Scenario(Verdict.RANDOM_LOSS, path=("--loss", "0.03")),
    "policer_3mbps": Scenario(Verdict.POLICER, around=policer(375_000, 50), duration_s=10),
    "policer_5mbps": Scenario(Verdict.POLICER, around=policer(625_000, 1000), duration_s=10),
    "policer_10mbps": Scenario(Verdict.POLICER, around=policer(POLICED_BYTES_S), duration_s=10),
    "policer_20mbps": Scenario(Verdict.POLICER, around=policer(2_500_000), duration_s=10),
}
"""Additional scenarios for some of the verdicts; BBR is not in every kernel."""

SCENARIOS: dict[str, Scenario] = {
    "small_window": Scenario(Verdict.WINDOW_LIMITED, around=small_receive_buffer),
    "small_send_buffer": Scenario(Verdict.WINDOW_LIMITED, around=small_send_buffer),
    "random_loss": Scenario(Verdict.RANDOM_LOSS, path=("--loss", "0.005")),
    "policer": Scenario(Verdict.POLICER, around=policer(POLICED_BYTES_S), duration_s=7),
    "queue": Scenario(Verdict.BOTTLENECK_QUEUE, path=("--rate-mbps", "10", "--queue-ms", "100")),
    "pauses": Scenario(Verdict.APPLICATION_LIMITED, client=("-b", "10M/16")),
    "slow_disk": Scenario(Verdict.SLOW_RECEIVER, around=slow_disk),
    "processor": Scenario(Verdict.CPU_BOUND, client=("-l", "64"), local=True, duration_s=3),
    "reordering": Scenario(Verdict.REORDERING, path=("--reorder", "0.01")),
    "too_short": Scenario(Verdict.UNDETERMINED, path=("--rtt-ms", "180"), duration_s=1),
}
