"""Format the status of a lab: a summary line and a table of all ordered paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.lab import control
from probes.lab.routing.command import route_text
from probes.lab.routing.protocol import RouterStatus
from probes.lab.routing.topology import delay_ms
from probes.lab.sites import sites_down

TABLE_HEADER = (
    "path", "delay_ms", "±", "loss", "Mbit/s", "queue_ms", "policer", "reorder", "dupl",
    "received", "forwarded", "lost", "queue drops", "policed", "duplicated", "reordered", "failed", "held",
)  # fmt: skip
ROUTED_HEADER = (*TABLE_HEADER, "lost on links", "expired")
LINK_HEADER = ("link", *TABLE_HEADER[1:])
ROUTER_HEADER = ("router", "address", "AS", "ICMP/s", "silent", "MPLS", "expired", "ICMP sent", "limited")


def summary(state: control.LabState) -> str:
    count = len(state.sites)
    privilege = "as root" if state.user_fd is None else "in a user namespace"
    centre = "" if state.centre_port is None else f", centre at {state.centre_url}"
    return (
        f"{state.scenario} ({state.title}), {count} sites, {count * (count - 1)} paths, pid {state.pid}, {privilege}, "
        f"{state.scheduling} priority, seed {state.seed}{centre}; control {state.control_socket}"
    )


def status_text(status: control.LabStatus) -> str:
    waited = "" if status.timing.waited_s is None else f" (waited {status.timing.waited_s:.1f} s for a CPU)"
    lines = [
        f"lab {summary(status.lab)}",
        f"up {status.uptime_s:.0f} s, relay CPU {status.timing.cpu_s:.1f} s{waited}; "
        f"{status.timing.late_over_1ms} packets over 1 ms late, maximum {status.timing.latest_ms:.2f} ms",
    ]
    if status.centre is not None:
        since = "" if status.cut_off_at is None else f" since {status.cut_off_at:%H:%M:%S} UTC"
        lines.append(f"centre: {status.centre}{since}")
    lines += [f"{name}: down, all its paths lose every packet" for name in sites_down(status)]
    for site in status.sites:
        if site.overrun:
            lines.append(f"{site.name}: {site.overrun} packets dropped by the kernel: relay too slow")
    lines.append("")
    if not status.routers:
        lines += _table([TABLE_HEADER, *(_row(path) for path in status.paths)])
        return "\n".join(lines)
    lines += _table([ROUTED_HEADER, *_routed_rows(status)])
    lines += ["", *(route_text(path) for path in status.routes)]
    lines += ["", *_table([LINK_HEADER, *(_row(link) for link in status.links)])]
    lines += ["", *_table([ROUTER_HEADER, *(_router_row(router) for router in status.routers)])]
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_aligned(row, widths)) for row in rows]


def _routed_rows(status: control.LabStatus) -> Iterator[tuple[str, ...]]:
    links = {(link.source, link.destination): link.settings for link in status.links}
    routes = {(path.source, path.destination): path.routes for path in status.routes}
    for path in status.paths:
        pair = (path.source, path.destination)
        on_links_ms = delay_ms(links, pair, routes[pair]) if pair in routes else 0.0
        name, _, *others = _row(path)
        total_ms = round(path.settings.delay_ms + on_links_ms, 3)
        yield (name, f"{total_ms:g}", *others, str(path.counts.dropped_links), str(path.counts.expired))


def _router_row(router: RouterStatus) -> tuple[str, ...]:
    settings, counts = router.settings, router.counts
    return (
        settings.name,
        settings.address,
        "-" if settings.asn is None else f"AS{settings.asn}",
        "-" if settings.icmp_per_s is None else f"{settings.icmp_per_s:g}",
        "yes" if settings.is_silent else "no",
        ",".join(map(str, settings.mpls)) or "-",
        *(str(number) for number in (counts.expired, counts.icmp_sent, counts.icmp_limited)),
    )


def _row(path: control.PathStatus) -> tuple[str, ...]:
    settings, counts = path.settings, path.counts
    rate = "-" if settings.rate_mbps is None else f"{settings.rate_mbps:g}"
    queue = "-" if settings.rate_mbps is None else f"{settings.queue_limit_bytes * 8 / settings.rate_mbps / 1e3:g}"
    values = (settings.delay_ms, settings.jitter_ms, settings.loss_ratio)
    policer = "-" if settings.policer_mbps is None else f"{settings.policer_mbps:g}"
    dropped = (counts.dropped_loss, counts.dropped_queue, counts.dropped_policer)
    numbers = (counts.received, counts.forwarded, *dropped, counts.duplicated)
    return (
        f"{path.source} → {path.destination}",
        *(f"{value:g}" for value in values),
        rate,
        queue,
        policer,
        f"{settings.reorder_ratio:g}",
        f"{settings.duplicate_ratio:g}",
        *(str(number) for number in (*numbers, counts.reordered, counts.failed, path.held)),
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
