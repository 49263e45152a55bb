"""The result of a policer test in words."""

from __future__ import annotations

from probes.contract import Outcome
from probes.policer.cells import as_cells
from probes.policer.spec import PolicerRun, PolicerVerdict
from probes.quantities import with_unit

NAMES = {
    PolicerVerdict.POLICER: "policer: drops",
    PolicerVerdict.SHAPER: "shaper: delays",
    PolicerVerdict.LINK: "link with a queue: delays",
}


def as_text(result: PolicerRun) -> list[str]:
    if result.outcome is not Outcome.MEASURED or result.verdict is None:
        return [f"{result.target}: {result.outcome.value}: {result.detail}"]
    counts = f"{result.received:,} of {result.sent:,} packets of {result.packet_bytes} bytes arrived"
    lines = [f"{result.target}: {limit_text(result)}", *([result.detail] if result.detail else []), counts]
    if result.sustained_bps is not None and result.peak_bps is not None and result.packet_bytes is not None:
        contract = as_cells(result.sustained_bps, result.burst_bytes, result.peak_bps, result.packet_bytes)
        burst = "" if contract.mbs is None else f", MBS {contract.mbs:,.0f} cells at a PCR of {contract.pcr:,.0f}"
        lines.append(f"as ATM cells (AAL5, LLC/SNAP): SCR {contract.scr:,.0f} cells/s{burst}")
    return lines


def limit_text(result: PolicerRun) -> str:
    """Format verdict and figures as a phrase."""
    peak = "" if result.peak_bps is None else with_unit(result.peak_bps, "bit/s")
    if result.verdict is PolicerVerdict.NO_LIMIT:
        return f"no limit up to {peak}"
    if result.verdict is None or result.sustained_bps is None:
        return "cannot tell what limits the rate"
    text = f"{NAMES[result.verdict]} packets above {with_unit(result.sustained_bps, 'bit/s')}"
    return text if result.burst_bytes is None else f"{text}, burst {size(result.burst_bytes)}"


def size(size_bytes: float) -> str:
    """Format bytes with three significant digits and unit."""
    scale, unit = next(((s, u) for s, u in ((1e6, "MB"), (1e3, "kB")) if size_bytes >= s), (1.0, "B"))
    return f"{size_bytes / scale:.3g} {unit}"
