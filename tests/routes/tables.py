"""Tables of `routes`, the analysis of routes on simulated networks. They need neither a database nor a network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import numpy as np

from monitor.analysis.routes.crossings import find_crossings
from monitor.analysis.routes.effects import effect_of, loss_step, rtt_step
from monitor.analysis.routes.onset import LossOnset, by_as, find_onset
from monitor.analysis.routes.suspects import CERTAIN, rank_suspects
from monitor.analysis.routes.timeline import FlowPeriod, RouteTrace, Timeline
from tests.reproduce.table import Table
from tests.routes.balanced import START, balanced_traces, planted_at
from tests.routes.incidents import incidents_of
from tests.routes.lossy_paths import LossyPath, is_right, lossy_path
from tests.routes.meshes import faulty_mesh
from tests.routes.series import CHANGE_MINUTE, bursts
from tests.scored import count_of

FIRST_REPORTED = 10_000
"""Seed of the first mesh in the table of incidents; those below 1,000 served to choose the constants."""
LEAST_LOST = 20
"""Probes lost at each hop with which the figures suffice to name a link."""


def changes(share: float) -> Table:
    table = Table(("flows", "traces every", "days without change", "changes raised", "planted", "found within bounds",
                   "shown by the first trace"))  # fmt: skip
    for flows, every_min in ((1, 10), (4, 1), (16, 1)):
        days = count_of(50, share)
        raised = sum(len(_ended(balanced_traces(seed, flows=flows, every_min=every_min))) for seed in range(days))
        right = first = 0
        for seed in range(days, 3 * days):
            change_at = planted_at(seed, every_min)
            truth = START + timedelta(minutes=change_at)
            ended = _ended(balanced_traces(seed, flows=flows, every_min=every_min, change_at=change_at))
            is_once = sorted(period.flow.number for period in ended) == list(range(flows))
            right += is_once and all(period.last_at < truth <= (period.until or START) for period in ended)
            first += is_once and truth in {period.until for period in ended}
        counts = (days, raised, 2 * days, right, first)
        table.rows.append((str(flows), f"{every_min} min", *map(str, counts)))
        if raised:
            table.failures.append(f"{raised} changes on days of load balancing with {flows} flows")
        if right < 0.95 * 2 * days:
            table.failures.append(f"{right} of {2 * days} changes found with {flows} flows")
    return table


def _ended(traces: Sequence[RouteTrace]) -> list[FlowPeriod]:
    """The periods that ended with a change of the flow's route."""
    timeline = Timeline()
    timeline.follow(traces)
    return timeline.ended


def effects(share: float) -> Table:
    table = Table(("planted with the route change", "series", "effects found"))
    series = count_of(2000, share)
    false = sum(effect_of(*bursts(seed)) is not None for seed in range(series))
    table.rows.append(("nothing", str(series), f"{false / series:.1%}"))
    if false > 0.01 * series and share == 1.0:
        table.failures.append(f"{false} of {series} changes without effect have one")
    series = count_of(500, share)
    for shift_ms in (2.0, 5.0, 10.0, -10.0, 60.0):
        steps = [rtt_step(*bursts(seed, shift_ms=shift_ms)) for seed in range(10_000, 10_000 + series)]
        hits = sum(step is not None and abs(step.at_s - CHANGE_MINUTE * 60.0) <= 180.0 for step in steps)
        table.rows.append((f"{shift_ms:+.0f} ms", str(series), f"{hits / series:.1%}"))
        if shift_ms == 10.0 and hits < 0.95 * series:
            table.failures.append(f"{hits} of {series} steps of 10 ms found")
    for ratio in (0.02, 0.05, 0.1, 0.3):
        losses = [loss_step(*bursts(seed, loss_ratio=ratio)) for seed in range(20_000, 20_000 + series)]
        hits = sum(step is not None and step.is_rise for step in losses)
        table.rows.append((f"{ratio:.0%} loss", str(series), f"{hits / series:.1%}"))
    return table


def onset(share: float) -> Table:
    table = Table(
        (
            "paths",
            "simulated",
            "right",
            "wrong",
            "wrong beside a limited router",
            "right where data suffice",
        )
    )
    count = count_of(1000, share)
    for label, has_both, knows_direction, settings in (
        ("a limited router, no loss, from both ends", True, False, {"has_loss": False, "must_limit": True}),
        ("a limited router, no loss, from one end", False, False, {"has_loss": False, "must_limit": True}),
        ("a lossy link, from both ends", True, False, {}),
        ("the same, figures from before too", True, False, {"has_history": True}),
        ("the same, direction measured", True, True, {"has_history": True}),
        ("a lossy link, 30% of routers silent, from both ends", True, False, {"silent": 0.3}),
        ("a lossy link and a limited router, from both ends", True, False, {"must_limit": True}),
        ("a lossy link, from one end", False, False, {}),
        ("the same, direction measured, figures from before", False, True, {"has_history": True}),
    ):
        named = right = blamed = suffice = right_of = 0
        for seed in range(count):
            path = lossy_path(seed, **settings)  # type: ignore[arg-type]
            result = _onset(path, has_both=has_both, knows_direction=knows_direction)
            is_named = result is not None and result.is_certain
            is_hit = (
                result is not None
                and is_named
                and is_right(path, result.near_ttl, result.far_ttl, result.is_of_reverse)
            )
            named, right = named + is_named, right + is_hit
            if result is not None and is_named and not is_hit:
                route = path.reverse if result.is_of_reverse else path.forward
                blamed += bool({route[result.near_ttl], route[result.far_ttl]} & path.limited)
            if (has_both or knows_direction) and _suffices(path, has_both=has_both):
                suffice, right_of = suffice + 1, right_of + is_hit
        shown = f"{right_of} of {suffice} ({right_of / suffice:.0%})" if suffice else "–"
        table.rows.append((label, str(count), str(right), str(named - right), str(blamed), shown))
        if share == 1.0 and named - right >= 0.05 * count:
            table.failures.append(f"{label}: {named - right} of {count} wrong")
        if "has_loss" in settings and named:
            table.failures.append(f"{label}: {named} blamed")
    return table


def _onset(path: LossyPath, *, has_both: bool, knows_direction: bool) -> LossOnset | None:
    probability = 0.5
    if knows_direction and path.lossy is not None:
        probability = float(path.lossy in set(pairwise(path.forward)))
    mirror = by_as(path.as_numbers(of_reverse=False), path.as_numbers(of_reverse=True))
    return find_onset(path.forward_counts, path.reverse_counts if has_both else (), mirror, probability)


def _suffices(path: LossyPath, *, has_both: bool) -> bool:
    """Whether enough probes are lost, on a link that both routes cross, between routers that do not limit replies.

    From one end only, the link also has to be on the way there.
    """
    if path.lossy is None or path.loss_ratio * path.forward_counts[0].sent < LEAST_LOST:
        return False
    ends = set(path.lossy)
    is_seen = has_both or path.lossy in set(pairwise(path.forward))
    return is_seen and ends <= set(path.forward) and ends <= set(path.reverse) and not ends & path.limited


def suspects(share: float) -> Table:
    table = Table(("mesh", "simulated", "right name first", "certain", "certain and wrong", "right AS or border first",
                   "certain and wrong AS", "names (median)"))  # fmt: skip
    for label, count, settings in (
        ("10 sites", 200, {}),
        ("10 sites, direction of loss measured", 100, {"knows_direction": True}),
        ("5 sites", 200, {"sites": 5}),
        ("30 sites", 20, {"sites": 30}),
        ("10 sites, two faults", 100, {"faults": 2}),
    ):
        number = count_of(count, share)
        first = certain = wrong = place_first = place_wrong = 0
        names = []
        for seed in range(number):
            mesh = faulty_mesh(seed, **settings)  # type: ignore[arg-type]
            result = rank_suspects(mesh.paths, find_crossings(mesh.paths, mesh.as_of), mesh.as_of)
            verdict = result.certain()
            first += bool(result.parts) and mesh.is_right(result.parts[0])
            certain += verdict is not None
            wrong += verdict is not None and not mesh.is_right(verdict)
            if verdict is not None:
                names.append(len(verdict.parts))
            if result.places:
                is_hit = mesh.is_right(result.places[0])
                place_first += is_hit
                place_wrong += result.places[0].probability >= CERTAIN and not is_hit
        scores = (f"{score} ({score / number:.0%})" for score in (first, certain, wrong, place_first, place_wrong))
        table.rows.append((label, str(number), *scores, f"{np.median(names):.0f}" if names else "–"))
        if first < 0.9 * number:
            table.failures.append(f"{label}: {first} of {number} right")
        if share == 1.0 and wrong > 0.05 * number:
            table.failures.append(f"{label}: {wrong} of {number} wrong and certain")
    return table


def incidents(share: float) -> Table:
    table = Table(("mesh", "simulated", "right", "wrong", "named by routes", "links in these names",
                   "bad paths in it (median)"))  # fmt: skip
    for label, count, least_right, settings in (
        ("10 sites", 800, 0.9, {}),
        ("10 sites, direction of loss measured", 400, 0.75, {"knows_direction": True}),
        ("10 sites, a faulty AS", 200, 0.9, {"has_faulty_as": True}),
        ("5 sites", 400, 0.8, {"sites": 5}),
        ("10 sites, two pairs bad by themselves", 400, 0.0, {"bad_pairs": 2}),
        ("10 sites, three pairs bad by themselves", 400, 0.0, {"bad_pairs": 3}),
    ):
        number = count_of(count, share)
        results = [incidents_of(faulty_mesh(FIRST_REPORTED + seed, **settings)) for seed in range(number)]  # type: ignore[arg-type]
        common = [result for result in results if result.is_common]
        by_routes = [result for result in results if result.is_place]
        right = sum(result.is_right for result in common)
        scores = (right, len(common) - right, len(by_routes))
        texts = (f"{score} ({score / number:.0%})" for score in scores)
        links = [result.links for result in by_routes if result.links is not None]
        shares = f"{float(np.median([result.share for result in common])):.0%}" if common else "–"
        table.rows.append((label, str(number), *texts, f"{np.mean(links):.1f}" if links else "–", shares))
        if share == 1.0 and right < least_right * number:
            table.failures.append(f"{label}: {right} of {number} incidents have the right name")
        if share == 1.0 and least_right and len(common) - right > 0.05 * number:
            table.failures.append(f"{label}: {len(common) - right} of {number} incidents have a wrong name")
    return table


PARTS = {"changes": changes, "effects": effects, "onset": onset, "suspects": suspects, "incidents": incidents}
