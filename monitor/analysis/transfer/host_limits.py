"""Limits of the hosts of a transfer: a full CPU core, the sender's own queue, and buffers with the settings to change.

In: `Signs` and a `Recording` with the state of both hosts. Out: a `TransferFinding`, or advice as text. Without the
state of a host the advice is general. Advice names a setting only where its present value explains the limit.
"""

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

CPU_FULL = 0.9
"""Share of the time in which a process runs or waits for the CPU above which the CPU is the limit."""

CORE_FULL = 0.95
"""Share of the time in which a core must be busy to be full; /proc/stat counts in ticks of 4 to 10 ms."""

INTERRUPTS_FILL = 0.5
"""Share of a full core's time in the kernel's network interrupts, from which on they are what fills it."""

OTHERS_TAKE = 0.3
"""Share of a core taken by other processes from which on they are named."""

WANTED = 0.5
"""Share of the time in which a process ran or waited for the CPU, from which on a full core explains its pauses."""

HARDLY_WANTED = 0.1
"""Share below which it does not, however full the core is: the process slept for its own reasons."""

OWN_QUEUE_DROPS = 0.5
"""Share of the retransmitted segments that the sender's own queue must have dropped. Its packets are at least as long
as segments, so that a drop may cost several retransmissions."""

NOT_THE_REASON = 4.0
"""A largest buffer of this many times the window is not its limit: half of a buffer is offered as window, and a packet
takes up to twice its length in it."""

END_NAMES = ("sender", "receiver")
ENDS_OF_APPLICATIONS = {Verdict.APPLICATION_LIMITED: "sender", Verdict.SLOW_RECEIVER: "receiver"}
SHAPERS = ("tbf", "htb", "hfsc", "cake")
"""Queue disciplines that keep a rate."""


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
    """What would relieve the process, from the state of its host; empty without any."""
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
    """The finding that holds where other processes fill the core of a transfer's process.

    A process that waits for its core pauses like an idle sender or a slow reader. Where it wanted the core for half of
    the time, the core is the limit; where it hardly wanted it, the core is not; between them the two cannot be told
    apart. Nor can BBR's steady rate, which is that of a bottleneck or of the host.
    """
    if recording.asked_bps is not None:
        return finding
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
    """The core of an end's process with its load, if it is full, of other processes mostly, and the process wanted it;
    else None."""
    host, wanted_ratio = recording.host(end), recording.cpu_ratio(end)
    if wanted_ratio is not None and wanted_ratio < HARDLY_WANTED:
        return None
    core = None if host is None else host.tool_core_use
    others_ratio = None if host is None else _others_ratio(host)
    if core is None or others_ratio is None or others_ratio < OTHERS_TAKE or core.busy_ratio < CORE_FULL:
        return None
    return f"the {end}'s core {core.number} at {percent(core.busy_ratio)}, {percent(others_ratio)} for other processes"


def _others_ratio(host: HostState) -> float | None:
    """Share of the core of the tool's busiest thread that others took, network interrupts left out."""
    core = host.tool_core_use
    if core is None or host.tool_ratio is None:
        return None
    return max(0.0, core.busy_ratio - host.tool_ratio - core.softirq_ratio)


def _mtu_advice(recording: Recording, end: str) -> list[str]:
    """Larger packets cost less CPU time, where the other end's interface carries them already."""
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
    """The settings to change at an end so that each stream gets a socket buffer of this size.

    `present_bytes` is what a stream had in flight or was granted: a setting far above it is not the reason for it.
    """
    name = "rmem" if end == "receiver" else "wmem"
    for_each = " for each stream" if recording.streams > 1 else ""
    host = recording.host(end)
    if host is None or not host.sysctls:
        return f"raise tcp_{name} to {rounded_up(wanted_bytes)}{for_each}"
    advice = _window_scaling(recording) or _own_buffer(recording, host.sysctls, end, name, wanted_bytes)
    return (advice or _setting_advice(host.sysctls, end, name, wanted_bytes, present_bytes)) + for_each


def _window_scaling(recording: Recording) -> str | None:
    """Without window scaling at either end no window exceeds 64 kB."""
    for end in END_NAMES:
        host = recording.host(end)
        if host is not None and host.sysctls.get("net.ipv4.tcp_window_scaling") == "0":
            return f"set net.ipv4.tcp_window_scaling to 1 at the {end}: without it no window exceeds 64 kB"
    return None


def _own_buffer(
    recording: Recording, sysctls: Mapping[str, str], end: str, name: str, wanted_bytes: float
) -> str | None:
    """The advice where the test set the buffer itself, or the receiver's system does not let it grow; else None."""
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
    """The sysctl of an end that bounds the buffer, with the value to set."""
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
    """Programs that set their buffer themselves are bound by another sysctl."""
    allowed = _number(sysctls.get(most))
    if allowed is None or allowed >= wanted:
        return ""
    return f", and {most} to {wanted} for programs that set their buffer"


def whole_bytes(size_bytes: float) -> int:
    """A size to set: as `rounded_up` writes it, in bytes."""
    number, unit = rounded_up(size_bytes).split()
    return int(number) * (1_000_000 if unit == "MB" else 1024)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
