"""The route to a host as a table for the terminal, with the columns of mtr(8)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from probes.contract import Outcome
from probes.packets.spec import UNCOUNTED
from probes.quantities import counted
from probes.trace.spec import Hop, TraceRun

SILENT = "(no reply)"
COLUMNS = ("loss", "sent", "last ms", "avg", "best", "worst", "stdev")


def tables(runs: Sequence[TraceRun]) -> Group:
    return Group(*(part for run in runs for part in _parts(run)))


def _parts(run: TraceRun) -> Iterator[Table | Text]:
    host = run.target if run.address in (None, run.target) else f"{run.target} ({run.address})"
    if run.outcome is not Outcome.MEASURED:
        yield Text(f"{host}: {run.outcome.value}: {run.detail}")
        return
    yield Text(f"{host}, {run.protocol.upper()}, {flow_text(run)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("hop", justify="right")
    table.add_column("router", overflow="fold")
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for hop in run.hops:
        for row in _rows(hop):
            table.add_row(*row)
    yield table
    yield Text(end_text(run))
    if run.flow_effect is not None:
        yield Text(run.flow_effect.text)


def flow_text(run: TraceRun) -> str:
    """A trace's flow in the fields that load balancers hash."""
    if run.flow is None:
        return "no flow"
    if run.protocol == "icmp":
        return f"checksum 0x{run.flow:04x}"
    return f"ports {run.flow >> 16} to {run.flow & 0xFFFF}"


def end_text(run: TraceRun) -> str:
    if run.reached:
        return f"destination reached: {counted(len(run.hops), 'hop')}"
    if run.detail is not None:
        return f"destination {run.detail}"
    if not run.hops:
        return "no replies"
    last = run.hops[-1]
    if last.error in UNCOUNTED:
        return f"ends at hop {last.ttl}: the reply from {last.address} does not count: {UNCOUNTED[last.error]}"
    if last.error is not None:
        return f"ends at hop {last.ttl}: {last.error} from {last.address}"
    return f"destination not reached; last reply from hop {last.ttl}"


def _rows(hop: Hop) -> Iterator[Sequence[str]]:
    name = hop.address or SILENT
    yield (str(hop.ttl), f"{name} [{hop.error}]" if hop.error else name, *_figures(hop))
    for address in hop.others:
        yield ("", address, *[""] * len(COLUMNS))
    for label in hop.mpls:
        text = f"  MPLS label {label.label} TC {label.traffic_class} TTL {label.ttl}"
        yield ("", text, *[""] * len(COLUMNS))


def _figures(hop: Hop) -> list[str]:
    rtts_ms = [rtt for rtt in hop.rtts_ms if rtt is not None]
    sent = len(hop.rtts_ms)
    loss = "" if sent == 0 else f"{100 * (sent - len(rtts_ms)) / sent:.0f}%"
    if not rtts_ms:
        return [loss, str(sent), *["–"] * 5]
    figures = (rtts_ms[-1], statistics.fmean(rtts_ms), min(rtts_ms), max(rtts_ms), statistics.pstdev(rtts_ms))
    return [loss, str(sent), *(f"{figure:.2f}" for figure in figures)]
