"""Captured figures of a connection as rows of label and text, for the terminal and pages."""

from __future__ import annotations

from monitor.analysis import figures
from monitor.analysis.packets.figures import CaptureFigures, DataPause, Waited
from monitor.analysis.packets.losses import CaptureLosses, LostWhere

WAITED = {
    Waited.APPLICATION: "nothing outstanding and window open: the application sent nothing",
    Waited.WINDOW: "the receiver's window was full",
    Waited.ACKS: "{bytes} outstanding: waiting for ACKs, up to a retransmission timeout",
    Waited.UNKNOWN: "cannot tell why: the capture begins after the handshake, so the windows are not known",
}
MOST_PAUSES = 10


def capture_rows(figure: CaptureFigures) -> list[tuple[str, str]]:
    rows = [
        ("from, to", f"{figure.source} to {figure.destination}"),
        ("data", _data(figure)),
        ("retransmitted", _retransmitted(figure)),
    ]
    if figure.copies:
        rows.append(("copies", f"{figures.count(figure.copies)} packets captured more than once, left out"))
    if figure.clock_back_ms is not None:
        rows.append(("clock", f"went back by {_seconds(figure.clock_back_ms)} in the capture: no rates and times"))
    if figure.start_ms is not None:
        rows.append(("RTT, outstanding, bursts, pauses", f"of the first {_seconds(figure.start_ms)}"))
    if figure.out_of_order_packets:
        packets = figures.count(figure.out_of_order_packets)
        rows.append(("out of order", f"{packets} packets, later than their successors"))
    if figure.rtt_samples:
        rows.append(("RTT", _rtt(figure)))
    if figure.handshake_ms is not None:
        rows.append(("handshake", figures.milliseconds(figure.handshake_ms)))
    rows.append(("SACK", _sack(figure)))
    if figure.outstanding_max_bytes is not None:
        rows.append(("outstanding", f"at most {figures.count(figure.outstanding_max_bytes)} bytes"))
    if figure.window_max_bytes is not None:
        rows.append(("receiver's window", _window(figure)))
    if figure.largest_burst_bytes is not None:
        burst = figures.count(figure.largest_burst_bytes)
        rows.append(("largest burst", f"{burst} bytes within a tenth of the least RTT"))
    rows += [("pause", _pause(pause)) for pause in figure.pauses[:MOST_PAUSES]]
    if len(figure.pauses) > MOST_PAUSES:
        rows.append(("pause", f"{len(figure.pauses) - MOST_PAUSES} more"))
    return rows


def _data(figure: CaptureFigures) -> str:
    rate = "" if figure.rate_bps is None else f", {figures.bit_rate(figure.rate_bps)}"
    duration = "" if figure.duration_ms is None else f" and {_seconds(figure.duration_ms)}"
    packets = f"{figures.count(figure.data_packets)} packets{duration}"
    size = f"{figures.count(figure.unique_bytes)} bytes"
    if figure.captured_ratio is not None:
        size = f"{size} captured, {figures.percent(figure.captured_ratio)} of the transfer,"
    return f"{size} in {packets}{rate}"


def _seconds(value_ms: float) -> str:
    return f"{value_ms / 1000.0:.3f} s"


def _retransmitted(figure: CaptureFigures) -> str:
    if not figure.resent_packets:
        return "none that the capture shows"
    share = figures.percent(figure.resent_bytes / figure.unique_bytes)
    of = "the data" if figure.captured_ratio is None else "the captured data"
    resent = f"{figures.count(figure.resent_packets)} packets, {share} of {of}"
    if figure.loss_events is None:
        return resent
    return f"{resent}, in {'1 loss event' if figure.loss_events == 1 else f'{figure.loss_events} loss events'}"


def _rtt(figure: CaptureFigures) -> str:
    least, median = figures.milliseconds(figure.rtt_min_ms), figures.milliseconds(figure.rtt_median_ms)
    p95, most = figures.milliseconds(figure.rtt_p95_ms), figures.milliseconds(figure.rtt_max_ms)
    return f"minimum {least}, median {median}, p95 {p95}, maximum {most}, of {figures.count(figure.rtt_samples)} ACKs"


def _sack(figure: CaptureFigures) -> str:
    if figure.cut_packets:
        packets = figures.count(figure.cut_packets)
        return f"not known: {packets} packets are cut within their headers; capture with `tcpdump -s 128`"
    if not figure.sack_packets:
        return "none"
    twice = f"; {figures.count(figure.duplicate_sack_packets)} tell of data that arrived twice (D-SACK)"
    most = "1 block" if figure.most_sack_blocks == 1 else f"{figure.most_sack_blocks} blocks"
    blocks = f"{figures.count(figure.sack_packets)} ACKs with at most {most}"
    return blocks + (twice if figure.duplicate_sack_packets else "")


def _window(figure: CaptureFigures) -> str:
    text = f"{figures.count(figure.window_min_bytes or 0)} to {figures.count(figure.window_max_bytes or 0)} bytes"
    return text + (f"; zero in {figures.count(figure.zero_window_packets)} ACKs" if figure.zero_window_packets else "")


def _pause(pause: DataPause) -> str:
    why = WAITED[pause.waited_for].format(bytes=f"{figures.count(pause.outstanding_bytes)} bytes")
    return f"{_seconds(pause.duration_ms)} from {_seconds(pause.begin_ms)} on; {why}"


def loss_sentence(losses: CaptureLosses, sender: str, receiver: str) -> str:
    """The direction in which packets of a transfer were lost between both captures."""
    if losses.where is LostWhere.UNKNOWN:
        return f"Cannot tell in which direction packets were lost: {losses.reason}."
    sent, acks = figures.count(losses.sent_bytes), figures.count(losses.sent_acks)
    if losses.where is LostWhere.NOWHERE:
        compared = f"{sent} bytes from {sender} and {acks} ACKs from {receiver}"
        return f"No packet was lost between both captures{_share(losses)}: {compared}."
    data = f"none of {sent} bytes"
    if losses.lost_bytes:
        share = figures.percent(losses.lost_bytes / losses.sent_bytes)
        about = "about 1 packet" if losses.lost_packets == 1 else f"about {figures.count(losses.lost_packets)} packets"
        data = f"{about} with {figures.count(losses.lost_bytes)} bytes ({share} of the data)"
    back = f"{figures.count(losses.lost_acks) if losses.lost_acks else 'none'} of {acks} ACKs"
    needless = ""
    if losses.needless_bytes:
        needless = f" {figures.count(losses.needless_bytes)} bytes were retransmitted although they had arrived."
    return f"Lost{_share(losses)} from {sender} to {receiver}: {data}; from {receiver} to {sender}: {back}.{needless}"


def _share(losses: CaptureLosses) -> str:
    ratio = losses.compared_ratio
    return "" if ratio is None else f", in the {figures.percent(ratio)} of the transfer that both captured,"
