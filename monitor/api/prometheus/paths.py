"""Newest values of each path, with smokeping_prober's names and labels where they exist; they count since the UTC day
began."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from monitor.analysis.link_use import FullVerdict
from monitor.api.prometheus.other_tests import of_responses
from monitor.archive.queries.directions import DirectionCounter
from monitor.archive.queries.for_prometheus import NewestResponse, PathCounter, RouteCounter, received_within
from monitor.overview.links.use import LinkUse
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath

# smokeping_prober's own: 50 µs to 26 s.
BUCKETS_S = tuple(5e-05 * 2**number for number in range(20))
LABELS = ("ip", "host", "source", "tos", "source_site", "destination_site", "path", "packet_bytes")
ROUTE_LABELS = ("host", "source", "source_site", "destination_site", "path")
# Type of service of the requests; always the default.
TOS = "0"


LINK_LABELS = (*ROUTE_LABELS, "test", "interface", "router")


class PathCollector(Collector):
    """`present` has labels and condition of each path."""

    def __init__(
        self,
        counters: Sequence[PathCounter],
        routes: Mapping[int, RouteCounter],
        directions: Mapping[int, DirectionCounter],
        links: Sequence[LinkUse] = (),
        responses: Sequence[NewestResponse] = (),
        present: Sequence[tuple[Sequence[str], PresentPath]] = (),
    ) -> None:
        self._counters, self._responses = counters, responses
        self._links, self._present = links, present
        self._directions = [
            (counter, directions[path_id])
            for path_id, counter in {counter.path_id: counter for counter in counters}.items()
            if path_id in directions
        ]
        # A path has a counter for each packet size, and its routes once.
        self._routes = [
            (counter, routes[path_id])
            for path_id, counter in {counter.path_id: counter for counter in counters}.items()
            if path_id in routes
        ]

    def collect(self) -> Iterator[Metric]:
        yield self._counted("smokeping_requests", "Number of ping requests sent", lambda counter: counter.sent)
        yield self._durations()
        yield self._counted(
            "smokeping_response_duplicates",
            "The number of duplicated response packets.",
            lambda counter: counter.duplicates,
        )
        yield self._newest(
            "smokeping_response_ttl", "The last response Time To Live (TTL).", lambda counter: counter.ttl
        )
        yield self._newest(
            "soundings_path_measured_timestamp_seconds",
            "Start of the latest burst of the last day, failed bursts included",
            lambda counter: None if counter.measured_at is None else counter.measured_at.timestamp(),
        )

        yield from self._of_conditions()
        yield from self._of_directions()
        yield from self._of_routes()
        yield from self._of_links()
        yield from of_responses(self._responses)

    def _of_conditions(self) -> Iterator[Metric]:
        numbers = ", ".join(f"{condition} {condition.name.lower()}" for condition in Condition)
        condition = GaugeMetricFamily("soundings_path_condition", f"Its condition: {numbers}", labels=ROUTE_LABELS)
        loss = GaugeMetricFamily(
            "soundings_path_loss_ratio", "Loss of round trips now, of a path in trouble", labels=ROUTE_LABELS
        )
        onset = GaugeMetricFamily(
            "soundings_path_onset_timestamp_seconds", "Onset of the trouble that a path is in", labels=ROUTE_LABELS
        )
        for labels, path in self._present:
            condition.add_metric(labels, path.condition)
            if path.condition.is_trouble and path.loss_ratio is not None:
                loss.add_metric(labels, path.loss_ratio)
            if path.onset is not None:
                onset.add_metric(labels, path.onset.at_s)
        yield from (condition, loss, onset)

    def _of_directions(self) -> Iterator[Metric]:
        labels = (*ROUTE_LABELS, "direction")
        sent = CounterMetricFamily(
            "soundings_path_direction_packets",
            "Packets that a direction carried or lost since the UTC day began, by the reflector's counters",
            labels=labels,
        )
        lost = CounterMetricFamily(
            "soundings_path_direction_lost", "Packets lost in a direction since the UTC day began", labels=labels
        )
        for counter, counted in self._directions:
            values = _route_labels(counter)
            sent.add_metric([*values, "forward"], counted.counted)
            sent.add_metric([*values, "reverse"], counted.counted - counted.forward_lost)
            lost.add_metric([*values, "forward"], counted.forward_lost)
            lost.add_metric([*values, "reverse"], counted.reverse_lost)
        yield from (sent, lost)

    def _of_routes(self) -> Iterator[Metric]:
        changes = CounterMetricFamily(
            "soundings_path_route_changes", "Changes of route since the UTC day began", labels=ROUTE_LABELS
        )
        hops = GaugeMetricFamily(
            "soundings_path_route_hops", "Hops of the present route, the destination included", labels=ROUTE_LABELS
        )
        traced = GaugeMetricFamily(
            "soundings_path_traced_timestamp_seconds", "Latest trace with a reply", labels=ROUTE_LABELS
        )
        for counter, route in self._routes:
            values = _route_labels(counter)
            changes.add_metric(values, route.changes)
            traced.add_metric(values, route.traced_at.timestamp())
            if route.hops is not None:
                hops.add_metric(values, route.hops)
        yield from (changes, hops, traced)

    def _of_links(self) -> Iterator[Metric]:
        into = GaugeMetricFamily("soundings_link_in_bps", "Bit rate into the interface, newest", labels=LINK_LABELS)
        out = GaugeMetricFamily("soundings_link_out_bps", "Bit rate out of the interface, newest", labels=LINK_LABELS)
        at = GaugeMetricFamily(
            "soundings_link_measured_timestamp_seconds", "Newest reading of the interface", labels=LINK_LABELS
        )
        capacity = GaugeMetricFamily("soundings_link_capacity_bps", "Capacity of the link", labels=LINK_LABELS)
        full = GaugeMetricFamily(
            "soundings_link_full_weeks",
            "Weeks until the link is full, 0 if it is full; none where it is not within a year or cannot be told",
            labels=LINK_LABELS,
        )
        counters = {counter.path_id: counter for counter in self._counters}
        for use in (use for use in self._links if use.path_id in counters):
            read = use.newest
            interface, router = (read.interface, read.router) if read is not None else (None, None)
            labels = [*_route_labels(counters[use.path_id]), use.test or "", interface or "", router or ""]
            if read is not None:
                into.add_metric(labels, read.in_bps)
                out.add_metric(labels, read.out_bps)
                at.add_metric(labels, read.at.timestamp())
            if use.forecast.capacity_bps is not None:
                capacity.add_metric(labels, use.forecast.capacity_bps)
            weeks = 0 if use.forecast.verdict is FullVerdict.FULL else use.forecast.weeks
            if weeks is not None:
                full.add_metric(labels, weeks)
        yield from (into, out, at, capacity, full)

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            "smokeping_response_duration_seconds", "A histogram of latencies for ping responses.", labels=LABELS
        )
        bounds = [f"{bound:.6g}" for bound in BUCKETS_S]
        within = received_within(self._counters, [bound * 1000 for bound in BUCKETS_S]).tolist()
        for counter, counts in zip(self._counters, within, strict=True):
            buckets = [*zip(bounds, counts, strict=True), ("+Inf", counter.received)]
            family.add_metric(labels_of(counter), buckets, sum_value=counter.rtt_sum_ms / 1000)
        return family

    def _counted(self, name: str, said: str, value: Callable[[PathCounter], float]) -> Metric:
        family = CounterMetricFamily(name, said, labels=LABELS)
        for counter in self._counters:
            family.add_metric(labels_of(counter), value(counter))
        return family

    def _newest(self, name: str, said: str, value: Callable[[PathCounter], float | None]) -> Metric:
        family = GaugeMetricFamily(name, said, labels=LABELS)
        for counter in self._counters:
            newest = value(counter)
            if newest is not None:
                family.add_metric(labels_of(counter), newest)
        return family


def _route_labels(counter: PathCounter) -> list[str]:
    labels = dict(zip(LABELS, labels_of(counter), strict=True))
    return [labels[name] for name in ROUTE_LABELS]


def labels_of(counter: PathCounter) -> tuple[str, ...]:
    """The address is the newest burst's, empty without any."""
    ends = (counter.source_site, counter.destination_site)
    return (
        counter.address or "",
        counter.host,
        counter.source,
        TOS,
        *ends,
        str(counter.path_id),
        str(counter.packet_bytes),
    )
