"""Limits of a transfer's hosts: a full CPU core, the sender's queue, and buffers. Advice names a setting only where its
value explains the limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.analysis.figures import bit_rate, count, percent
from monitor.analysis.transfer.finding import (
    EvidenceFigure,
    TransferFinding,
    Verdict,
    rate_figure,
    rounded_up,
    size_text,
)
from monitor.analysis.transfer.queues import LEAST_LOSS_EVENTS
from monitor.analysis.transfer.record import CoreUse, HostState, Recording
from monitor.analysis.transfer.signs import Signs

# Share of time a process runs or waits for the CPU above which the CPU is the limit.
CPU_FULL = 0.9

# Busy share of a full core; /proc/stat counts in ticks of 4 to 10 ms.
CORE_FULL = 0.95

# Share of a full core's time above which network interrupts are named as filling it.
INTERRUPTS_FILL = 0.5

# Share of a core taken by other processes from which on they are named.
OTHERS_TAKE = 0.3

# Share of time running or waiting for the CPU from which a full core explains a process's pauses.
WANTED = 0.5

# Below this share a full core does not explain them: the process slept by itself.
HARDLY_WANTED = 0.1

# Least dropped share of retransmitted segments; dropped packets may be longer, so a drop may cost several.
OWN_QUEUE_DROPS = 0.5

# Larger buffers over the window are not its limit: half is offered, a packet takes up to twice its length.
NOT_THE_REASON = 4.0

END_NAMES = ("sender", "receiver")
ENDS_OF_APPLICATIONS = {Verdict.APPLICATION_LIMITED: "sender", Verdict.SLOW_RECEIVER: "receiver"}
# Queue disciplines that keep a rate.
SHAPERS = ("tbf", "htb", "hfsc", "cake")


def cpu_bound(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A process that used up a CPU, or a core filled by network interrupts."""
    ratios = {"sender": recording.sender_cpu_ratio, "receiver": recording.receiver_cpu_ratio}
    full = {end: ratio for end, ratio in ratios.items() if ratio is not None and ratio > CPU_FULL}
    if full:
        end = max(full, key=lambda role: full[role])
        return _process_bound(signs, recording, end, full[end])
    return _interrupt_bound(signs, recording)


def _process_bound(signs: Signs, recording: Recording, end: str, ratio: float) -> TransferFinding:
    host = recording.host(end)
    core = None if host is None else host.tool_core_use
    return TransferFinding(
        Verdict.CPU_BOUND,
        f"CPU-bound at {bit_rate(signs.throughput_bps)}: the {end}'s process used or waited for the CPU"
        f" {percent(min(1.0, ratio))} of the time{_core_text(host)}; the path was not the limit"
        f"{_cpu_advice(recording, end)}",
        (
            rate_figure(signs),
            EvidenceFigure(f"{end}'s CPU", ratio, ""),
            *([] if core is None else [EvidenceFigure(f"{end}'s core {core.number}", core.busy_ratio, "")]),
        ),
    )


def _core_text(host: HostState | None) -> str:
    core = None if host is None else host.tool_core_use
    return "" if core is None else f", on core {core.number} at {percent(core.busy_ratio)}"


def _interrupt_bound(signs: Signs, recording: Recording) -> TransferFinding | None:
    for end in END_NAMES:
        host = recording.host(end)
        core = None if host is None else _filled_by_interrupts(host.cores)
        if host is None or core is None:
            continue
        interface = host.interface or "INTERFACE"
        return TransferFinding(
            Verdict.CPU_BOUND,
            f"CPU-bound at {bit_rate(signs.throughput_bps)}: the {end}'s core {core.number} at"
            f" {percent(core.busy_ratio)}, {percent(core.softirq_ratio)} in network interrupts; spread them over more"
            f" cores: more queues (ethtool -L {interface}), or /sys/class/net/{interface}/queues/rx-0/rps_cpus",
            (
                rate_figure(signs),
                EvidenceFigure(f"{end}'s core {core.number}", core.busy_ratio, ""),
                EvidenceFigure("in network interrupts", core.softirq_ratio, ""),
            ),
        )
    return None


def _filled_by_interrupts(cores: Iterable[CoreUse]) -> CoreUse | None:
    full = [core for core in cores if core.busy_ratio >= CORE_FULL and core.softirq_ratio >= INTERRUPTS_FILL]
    return max(full, key=lambda core: core.softirq_ratio, default=None)


def _cpu_advice(recording: Recording, end: str) -> str:
    host = recording.host(end)
    if host is None:
        return ""
    parts = []
    others_ratio = _others_ratio(host)
    if others_ratio is not None and others_ratio >= OTHERS_TAKE:
        parts.append(f"other processes used {percent(others_ratio)} of this core, move them")
    if recording.streams > 1 and recording.has_thread_per_stream is False:
        parts.append("this iperf3 has a single thread for all streams: install 3.16 or later")
    if host.cpu_governor is not None and host.cpu_governor not in ("performance", "schedutil"):
        parts.append(f"set the CPU governor to performance, now {host.cpu_governor}")
    parts += _mtu_advice(recording, end)
    return f"; {'; '.join(parts)}" if parts else ""


def starved(finding: TransferFinding, signs: Signs, recording: Recording) -> TransferFinding:
    """The finding adjusted where other processes fill the core of a transfer's process: CPU-bound if it wanted the core
    half of the time, unchanged if hardly, else undetermined."""
    if recording.asked_bps is not None:
        return finding
    # BBR's steady rate is a bottleneck's or the host's: a full core leaves open which.
    if finding.verdict is Verdict.BOTTLENECK_QUEUE and (recording.congestion_control or "").startswith("bbr"):
        full = next((text for end in END_NAMES if (text := _full_of_others(recording, end)) is not None), None)
        return finding if full is None else _not_told(signs, full)
    end = ENDS_OF_APPLICATIONS.get(finding.verdict)
    full = None if end is None else _full_of_others(recording, end)
    if end is None or full is None:
        return finding
    wanted_ratio = recording.cpu_ratio(end)
    if wanted_ratio is None or wanted_ratio < WANTED:
        return _not_told(signs, full)
    sentence = f"CPU-bound at {bit_rate(signs.throughput_bps)}: {full}; the path was not the limit; move the others"
    return TransferFinding(
        Verdict.CPU_BOUND, sentence, (rate_figure(signs), EvidenceFigure(f"{end}'s CPU", wanted_ratio, ""))
    )


def _not_told(signs: Signs, full: str) -> TransferFinding:
    return TransferFinding(
        Verdict.UNDETERMINED,
        f"undetermined at {bit_rate(signs.throughput_bps)}: {full}, so that the rate does not show whether the CPU, the"
        " application or the path was the limit; repeat it with less load",
        (rate_figure(signs),),
    )


def _full_of_others(recording: Recording, end: str) -> str | None:
    """The end's core with its load, if filled by other processes and wanted."""
    host, wanted_ratio = recording.host(end), recording.cpu_ratio(end)
    if wanted_ratio is not None and wanted_ratio < HARDLY_WANTED:
        return None
    core = None if host is None else host.tool_core_use
    others_ratio = None if host is None else _others_ratio(host)
    if core is None or others_ratio is None or others_ratio < OTHERS_TAKE or core.busy_ratio < CORE_FULL:
        return None
    return f"the {end}'s core {core.number} at {percent(core.busy_ratio)}, {percent(others_ratio)} for other processes"


def _others_ratio(host: HostState) -> float | None:
    """Share of the busiest thread's core taken by others, without network interrupts."""
    core = host.tool_core_use
    if core is None or host.tool_ratio is None:
        return None
    return max(0.0, core.busy_ratio - host.tool_ratio - core.softirq_ratio)


def _mtu_advice(recording: Recording, end: str) -> list[str]:
    # Larger packets cost less CPU time; the other end's interface must carry them.
    host, other = recording.host(end), recording.host("sender" if end == "receiver" else "receiver")
    if host is None or other is None or host.mtu_bytes is None or other.mtu_bytes is None:
        return []
    small, large = sorted((host, other), key=lambda state: state.mtu_bytes or 0)
    if small.mtu_bytes == large.mtu_bytes:
        return []
    which = end if small is host else ("sender" if end == "receiver" else "receiver")
    return [
        f"the MTU of the {which}'s interface is {small.mtu_bytes}, that of the other end {large.mtu_bytes}: with"
        f" {large.mtu_bytes} at both there are fewer packets"
    ]


def own_queue(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Packets dropped by the queue discipline of the sender's own interface."""
    host = recording.sender_host
    drops = None if host is None else host.queue_drops
    if host is None or drops is None or signs.loss_events < LEAST_LOSS_EVENTS:
        return None
    if drops < OWN_QUEUE_DROPS * signs.resent_segments:
        return None
    queue = host.queue_discipline or "queue"
    length = "" if host.tx_queue_packets is None else f", txqueuelen {host.tx_queue_packets}"
    return TransferFinding(
        Verdict.HOST_QUEUE,
        f"limited by the sender's own queue at {bit_rate(signs.throughput_bps)}: {queue} of {host.interface or 'its'}"
        f" interface dropped {count(drops)} packets, for {count(signs.resent_segments)} retransmitted{length}; the path"
        f" was not the limit: {_queue_advice(queue, host.interface or 'INTERFACE')}",
        (
            rate_figure(signs),
            EvidenceFigure("dropped by the sender's queue", drops, "count"),
            EvidenceFigure("retransmitted", signs.resent_segments, "count"),
        ),
    )


def _queue_advice(queue: str, interface: str) -> str:
    if queue in SHAPERS:
        return f"raise the rate or the limit of {queue} (tc qdisc show dev {interface})"
    return f"raise the limit of {queue}, or use fq (tc qdisc replace dev {interface} root fq)"


def buffer_advice(recording: Recording, end: str, wanted_bytes: float, present_bytes: float) -> str:
    """Settings that give each stream a socket buffer of `wanted_bytes`; a setting far above `present_bytes` in flight
    is no reason."""
    name = "rmem" if end == "receiver" else "wmem"
    for_each = " for each stream" if recording.streams > 1 else ""
    host = recording.host(end)
    if host is None or not host.sysctls:
        return f"raise tcp_{name} to {rounded_up(wanted_bytes)}{for_each}"
    advice = _window_scaling(recording) or _own_buffer(recording, host.sysctls, end, name, wanted_bytes)
    return (advice or _setting_advice(host.sysctls, end, name, wanted_bytes, present_bytes)) + for_each


def _window_scaling(recording: Recording) -> str | None:
    """Advice to enable window scaling at an end without it; no window exceeds 64 kB there."""
    for end in END_NAMES:
        host = recording.host(end)
        if host is not None and host.sysctls.get("net.ipv4.tcp_window_scaling") == "0":
            return f"set net.ipv4.tcp_window_scaling to 1 at the {end}: without it no window exceeds 64 kB"
    return None


def _own_buffer(
    recording: Recording, sysctls: Mapping[str, str], end: str, name: str, wanted_bytes: float
) -> str | None:
    """Advice on a buffer that the test set or the receiver cannot grow, else None."""
    if recording.window_bytes is not None:
        wanted, most = whole_bytes(wanted_bytes), f"net.core.{name}_max"
        allowed = _number(sysctls.get(most))
        raise_most = f", and {most} to {wanted} at the {end}" if allowed is not None and allowed < wanted else ""
        set_bytes = size_text(recording.window_bytes)
        return f"the test set a buffer of {set_bytes}: raise its window_bytes to {wanted}{raise_most}"
    if end == "receiver" and sysctls.get("net.ipv4.tcp_moderate_rcvbuf") == "0":
        return "set net.ipv4.tcp_moderate_rcvbuf to 1 at the receiver: without it the window does not grow"
    return None


def _setting_advice(sysctls: Mapping[str, str], end: str, name: str, wanted_bytes: float, present_bytes: float) -> str:
    setting = f"net.ipv4.tcp_{name}"
    present = sysctls.get(setting, "").split()
    largest = _number(present[-1]) if len(present) == 3 else None
    if largest is None:
        return f"raise {setting} to {rounded_up(wanted_bytes)} at the {end}"
    if largest >= NOT_THE_REASON * present_bytes:
        return f"{setting} allows {size_text(largest)} at the {end}, so that it is not the reason"
    wanted = whole_bytes(max(wanted_bytes, 2.0 * largest))
    most = _also(sysctls, f"net.core.{name}_max", wanted)
    return f'set {setting} to "{present[0]} {present[1]} {wanted}" at the {end}{most}'


def _also(sysctls: Mapping[str, str], most: str, wanted: int) -> str:
    """Advice on the sysctl that bounds programs setting their own buffer."""
    allowed = _number(sysctls.get(most))
    if allowed is None or allowed >= wanted:
        return ""
    return f", and {most} to {wanted} for programs that set their buffer"


def whole_bytes(size_bytes: float) -> int:
    """A size as `rounded_up`, in bytes."""
    number, unit = rounded_up(size_bytes).split()
    return int(number) * (1_000_000 if unit == "MB" else 1024)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
