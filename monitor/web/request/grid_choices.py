"""Choices of pages that show a grid."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock, Thread
from typing import Any, TypeVar

from django.db import connection
from django.http import Http404, HttpRequest

from monitor.accounts.read_limits import is_limited
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Site
from monitor.overview import measures
from monitor.overview.grid import FEW_PATHS, ComparedPeriod, Grid, GridPeriod, UnknownChoice, load_grid
from monitor.overview.measures import MEASURES
from monitor.overview.wide.places import load_places
from monitor.web.request import parameters

log = logging.getLogger(__name__)
SHOWN: list[tuple[str, Any]] = [
    ("value", ""),
    ("vs last week", ComparedPeriod.WEEK),
    ("vs last year", ComparedPeriod.YEAR),
]
ENDS = ("since", "until", "zone")
# A grid of so many paths is loaded for all readers together, at most once in the time between two refreshes.
LARGE_KEPT = timedelta(seconds=10)
# Loading takes seconds: until this age a reader gets the grid at once, and the next reader a new grid.
LARGE_SHOWN = timedelta(seconds=30)
GRID_PERIODS = (GridPeriod.NOW, GridPeriod.HOUR, GridPeriod.DAY, GridPeriod.WEEK)


Derived = TypeVar("Derived")
Choices = tuple[Metric, GridPeriod, int | None, str | None, ComparedPeriod | None, tuple[str, str] | None]
_large: dict[Choices, Grid] = {}
_lock = Lock()
_large_load = Lock()
# The choices that a thread loads; it has `_large_load`.
_loaded_beside: set[Choices] = set()
_derived: dict[int, dict[Hashable, Any]] = {}


def _choices(request: HttpRequest) -> Choices:
    return (
        chosen_metric(request).metric,
        parameters.choice(request, "period", GridPeriod, GridPeriod.NOW),
        chosen_packet_bytes(request),
        request.GET.get("group") or None,
        _against(request),
        chosen_places(request),
    )


def chosen_places(request: HttpRequest) -> tuple[str, str] | None:
    """Places chosen as source and destination; None unless both are."""
    source, destination = parameters.text(request, "from"), parameters.text(request, "to")
    return None if source is None or destination is None else (source, destination)


def load_chosen_grid(request: HttpRequest, now: datetime) -> Grid:
    """Raises Http404 for an unknown choice."""
    choices = _choices(request)
    if is_limited():
        return _load(*choices, now)
    with _lock:
        large = _large.get(choices)
        is_on_its_way = choices in _loaded_beside
    if large is None and not is_on_its_way:
        return _loaded(choices, now)
    if large is not None and timedelta(0) <= (age := now - large.until) < LARGE_SHOWN:
        if age >= LARGE_KEPT:
            _load_beside(choices, now)
        return large
    # Readers who come during a load wait for its grid: each load of their own would make all of them slower.
    with _large_load:
        with _lock:
            newer = _large.get(choices)
        return _loaded(choices, now) if newer is None or newer is large else newer


def load_early(request: HttpRequest, now: datetime, *, is_shown: Callable[[], bool]) -> None:
    """Load the grid in a thread, if its page shows it; readers wait for it."""
    _load_beside(_choices(request), now, is_shown)


def _load_beside(choices: Choices, now: datetime, is_shown: Callable[[], bool] = lambda: True) -> None:
    if not _large_load.acquire(blocking=False):
        return
    with _lock:
        _loaded_beside.add(choices)

    def load() -> None:
        try:
            if is_shown():
                _loaded(choices, now)
        except Exception:
            # Nobody needs it yet; the next reader loads one, and gets the error if it fails again.
            log.warning("the grid could not be loaded beside requests", exc_info=True)
        finally:
            with _lock:
                _loaded_beside.discard(choices)
            _large_load.release()
            connection.close()

    Thread(target=load, name="grid", daemon=True).start()


def _loaded(choices: Choices, now: datetime) -> Grid:
    with _without_collections():
        grid = _load(*choices, now)
    with _lock:
        _keep(choices, grid)
    return grid


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause garbage collection."""
    # It takes a third of the time of loading 90,000 paths.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_grid_between(request: HttpRequest, ends: tuple[str, str], now: datetime) -> Grid:
    """Raises Http404 for an unknown choice."""
    sites = dict(Site.objects.filter(name__in=ends).values_list("name", "id"))
    source, destination = ([sites[name]] if name in sites else [] for name in ends)
    places = chosen_places(request)
    if places is not None:
        departures, arrivals = _sites_between(places)
        source, destination = [*{*source} & {*departures}], [*{*destination} & {*arrivals}]
    return _load(*_choices(request), now, between=(source, destination))


def _load(
    metric: Metric,
    period: GridPeriod,
    packet_bytes: int | None,
    group: str | None,
    against: ComparedPeriod | None,
    places: tuple[str, str] | None,
    now: datetime,
    between: tuple[list[int], list[int]] | None = None,
) -> Grid:
    if between is None and places is not None:
        between = _sites_between(places)
    with unknown_as_404():
        return load_grid(metric, period, now, packet_bytes=packet_bytes, group=group, against=against, between=between)


@contextmanager
def unknown_as_404() -> Iterator[None]:
    """Turn an unknown choice into a 404 that lists the choices."""
    try:
        yield
    except UnknownChoice as error:
        raise Http404(str(error)) from error


def _sites_between(names: tuple[str, str]) -> tuple[list[int], list[int]]:
    places = load_places(more_than=0)
    sites = [None if places is None else places.sites_of(name) for name in names]
    if places is None or sites[0] is None or sites[1] is None:
        raise Http404(f"{names[0]} to {names[1]}: choose from {', '.join(() if places is None else places.names)}")
    return sites[0], sites[1]


def _keep(choices: Choices, grid: Grid) -> None:
    if len(grid.figures) < FEW_PATHS:
        dropped = _large.pop(choices, None)
        _derived.pop(id(dropped), None)
        return
    for other in [key for key, kept in _large.items() if grid.until - kept.until >= LARGE_SHOWN]:
        del _large[other]
    _large[choices] = grid
    for other_id in _derived.keys() - {id(kept) for kept in _large.values()}:
        del _derived[other_id]


def derived_once(grid: Grid, key: Hashable, compute: Callable[[], Derived]) -> Derived:
    """Compute for a large grid once for all readers."""
    with _lock:
        is_kept = any(kept is grid for kept in _large.values())
        derived = _derived.setdefault(id(grid), {}) if is_kept else {}
    if key not in derived:
        derived[key] = compute()
    value: Derived = derived[key]
    return value


def _against(request: HttpRequest) -> ComparedPeriod | None:
    return (
        parameters.choice(request, "against", ComparedPeriod, ComparedPeriod.WEEK)
        if request.GET.get("against")
        else None
    )


def chosen_metric(request: HttpRequest) -> measures.MetricChoice:
    """Metric, by default loss. Raises Http404 for an unknown metric."""
    return parameters.choice(request, "metric", measures.MetricChoice, measures.MetricChoice.LOSS)


def chosen_packet_bytes(request: HttpRequest) -> int | None:
    """Packet size. Raises Http404 if not a whole number."""
    given = request.GET.get("size")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 5):
        raise Http404(f"size={given}: give bytes of ICMP payload as a whole number, like size=100")
    return int(given)


def options_of_metric(request: HttpRequest) -> list[parameters.Option]:
    metrics: list[tuple[str, Any]] = [(MEASURES[choice.metric].short, choice) for choice in measures.MetricChoice]
    return parameters.options(request, "metric", metrics, chosen_metric(request))


def options_of_grid(request: HttpRequest, grid: Grid) -> dict[str, list[parameters.Option]]:
    return {
        "metrics": options_of_metric(request),
        "periods": parameters.options(request, "period", [(period, period) for period in GRID_PERIODS], grid.period),
        "sizes": parameters.options(
            request, "size", [(f"{size} B", size) for size in grid.packet_sizes], grid.packet_bytes
        ),
        "groups": _group_options(request, grid),
        "comparisons": parameters.options(request, "against", SHOWN, grid.against or ""),
    }


def _group_options(request: HttpRequest, grid: Grid) -> list[parameters.Option]:
    if len(grid.groups) < 2:
        return []
    labelled: list[tuple[str, Any]] = [("all groups", ""), *((name, name) for name in grid.groups)]
    return parameters.options(request, "group", labelled, grid.group or "")
