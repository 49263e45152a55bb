"""The evidence of an incident: figures before and after in both directions, its onset, and excluded causes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from scipy.stats import binomtest

from monitor.agents.models import AgentHealth
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.shares import Share
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.facts import FailedBurst, HostTest
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident, IncidentEvidence, Severity
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.models import Burst, ThroughputTest
from monitor.mesh.models import Slot, SlotHost
from monitor.web.pages.sites.load import AgentState, load_sites
from tests.db.alert_rows import make_mesh
from tests.db.mesh_of_three import batch, delivered, throughput
from tests.deliveries import store
from tests.diagnosis.reading import read
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=20)
MINUTE = timedelta(minutes=1)
REAL_RUNS = Path(__file__).parents[2] / "fixtures" / "iperf3" / "diagnosis"


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))


def bursts(path, since, until, rtts_ms, *, size=100, lost=0, every=MINUTE, **fields):
    """Bursts with these RTTs, plus this number of lost packets."""
    count = round((until - since) / every)
    Burst.objects.bulk_create(
        Burst(
            path_id=path.pk,
            packet_bytes=size,
            measured_at=since + number * every,
            sent=len(rtts_ms) + lost,
            received=len(rtts_ms),
            duplicates=0,
            reordered=0,
            **{"outcome": "measured", "during_test": False, "ttl": 54} | fields,
            rtts_ms=[None] * lost + list(rtts_ms),
        )
        for number in range(count)
    )


def incident(*findings, cause="cern ↔ slac", shares=()) -> Incident:
    lifecycle.add_findings(cause, findings, NOW - timedelta(seconds=20), shares=shares)
    (row,) = Incident.objects.filter(cause=cause)
    lifecycle.open_if_confirmed(row.pk, NOW)
    return queries.incident_with_paths(row.pk)


def finding(path, rule="loss", since=NOW - timedelta(minutes=10), **fields):
    return RuleFinding(rule, path.pk, str(path), f"{rule} is high", since, **fields)


def lossy(path, back):
    """A path with loss from BEGAN on, and a normal reverse path."""
    bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
    bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
    bursts(back, NOW - timedelta(hours=6), NOW, [21.0, 21.5])


def gathered(row, now=NOW):
    gather.store_facts(row, now)
    return evidence(row, now)


def test_figures_before_and_after_match_bursts_counted_by_hand(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)

    facts = gathered(incident(finding(out)))

    (path,) = facts.paths
    before, after = path.there.before, path.there.after
    surely_old = Burst.objects.filter(path_id=out.pk, measured_at__lte=facts.began.earliest).count()
    assert 338 <= surely_old <= 340
    assert (before.sent, before.lost, before.bursts) == (surely_old * 4, 0, surely_old)
    assert (after.sent, after.lost, after.bursts) == (20 * 4, 20, 20)
    exact = binomtest(20, 80).proportion_ci(0.95, method="exact")
    assert (after.loss_low_ratio, after.loss_high_ratio) == pytest.approx((exact.low, exact.high))
    values = np.float32([20.0, 20.2, 20.1] * 20)
    assert [after.rtt_min_ms, after.rtt_median_ms, after.rtt_p95_ms] == pytest.approx(
        np.quantile(values, [0, 0.5, 0.95]), abs=1e-4
    )
    differences = np.float32([0.2, -0.1] * 20)
    assert after.ipdv_ms == pytest.approx(np.subtract(*np.quantile(differences, [0.75, 0.25])), abs=1e-4)
    assert path.back.after.lost == 0
    assert path.back.name == "cern → slac"
    assert path.back.before.rtt_median_ms == pytest.approx(21.25)


def test_the_onset_is_between_the_last_good_and_first_bad_burst(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])

    began = gathered(incident(finding(paths["slac → cern"]))).began

    assert began.at == BEGAN
    assert began.earliest <= BEGAN - MINUTE
    assert began.earliest >= BEGAN - 3 * MINUTE
    assert BEGAN <= began.latest <= BEGAN + 2 * MINUTE


def test_an_onset_before_the_rules_window_is_located(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])

    began = gathered(incident(finding(paths["slac → cern"], since=NOW - 3 * MINUTE))).began

    assert began.at == BEGAN


def test_bursts_during_our_own_tests_are_listed_but_not_used(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    bursts(out, NOW - 5 * MINUTE, NOW - 3 * MINUTE, [], lost=10, size=1000, during_test=True)

    after = gathered(incident(finding(out))).paths[0].there.after

    assert after.bursts_during_test == 2
    assert after.lost == 20


def test_own_tests_on_either_host_are_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    measurement = paths["niit → cern"].measurements.get()
    slot = Slot.objects.create(
        measurement=measurement, starts_at=NOW - 4 * MINUTE, ends_at=NOW - 3 * MINUTE, outcome="measured"
    )
    for host in (measurement.path.source, measurement.path.destination):
        SlotHost.objects.create(slot=slot, host=host, starts_at=slot.starts_at, ends_at=slot.ends_at)

    (test,) = gathered(incident(finding(out))).own_tests

    assert (test.path, test.starts_at, test.outcome) == ("niit → cern", slot.starts_at, "measured")


def test_of_many_own_tests_the_newest_are_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    measurement = paths["niit → cern"].measurements.get()
    starts = [NOW - (25 - number) * timedelta(seconds=40) for number in range(25)]
    for starts_at in starts:
        slot = Slot.objects.create(
            measurement=measurement, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=10), outcome="measured"
        )
        SlotHost.objects.create(slot=slot, host=measurement.path.source, starts_at=starts_at, ends_at=slot.ends_at)
        SlotHost.objects.create(slot=slot, host=measurement.path.destination, starts_at=starts_at, ends_at=slot.ends_at)

    own_tests = gathered(incident(finding(out))).own_tests

    assert [test.starts_at for test in own_tests] == starts[-gather.MOST_OWN_TESTS :]


def test_stored_evidence_stays_when_raw_bursts_expire(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    row = incident(finding(out))
    first = gathered(row)
    Burst.objects.all().delete()

    later = evidence(queries.incident_with_paths(row.pk), NOW + timedelta(days=800))

    assert later.paths[0].there.before == first.paths[0].there.before
    assert later.paths[0].there.after == first.paths[0].there.after
    assert later.began == first.began
    assert later.likely == first.likely
    assert later.paths[0].there.now.sent == 0


def test_a_growing_incident_is_updated_and_keeps_its_baseline(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    row = incident(finding(out))
    assert gather.gather_due(NOW) == 1
    assert gather.gather_due(NOW) == 0
    before = evidence(row, NOW).paths[0].there.before
    Burst.objects.filter(measured_at__lt=BEGAN).delete()
    lifecycle.add_findings(row.cause, [finding(paths["niit → cern"], since=NOW)], NOW + MINUTE)

    assert gather.gather_due(NOW + MINUTE) == 1

    evidence_now = evidence(queries.incident_with_paths(row.pk), NOW + MINUTE)
    assert {path.name for path in evidence_now.paths} == {"slac → cern", "niit → cern"}
    assert next(path for path in evidence_now.paths if path.name == "slac → cern").there.before == before


def test_the_number_of_queries_does_not_grow_with_the_paths(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    single = incident(finding(paths["slac → cern"]))
    many = incident(*(finding(path, "jitter") for path in paths.values()), cause="all 6 paths")

    def count_queries(row):
        with CaptureQueriesContext(connection) as queries_run:
            gather.collect_facts(row, NOW)
        return len(queries_run)

    assert count_queries(single) == count_queries(many) == 12
    gather.store_facts(many, NOW)
    with CaptureQueriesContext(connection) as queries_run:
        evidence(many, NOW)
    assert len(queries_run) == 2


def test_an_incident_on_many_paths_details_the_worst_only():
    names = [f"s{number}" for number in range(5)]
    all_paths = list(make_mesh(names, NOW - timedelta(days=2)).values())
    row = incident(*(finding(path) for path in all_paths), cause="all 20 paths")

    facts = gathered(row)

    assert len(facts.paths) == gather.PATHS_IN_DETAIL
    assert facts.paths_left_out == 20 - 2 * gather.PATHS_IN_DETAIL  # each is shown with its reverse path


def test_an_incident_that_fails_to_gather_does_not_stop_others(paths, monkeypatch, caplog):
    lossy(paths["slac → cern"], paths["cern → slac"])
    bad = incident(finding(paths["niit → cern"]), cause="bad")
    good = incident(finding(paths["slac → cern"]))
    whole = gather.collect_facts

    def fail(row, now):
        if row.pk == bad.pk:
            raise ValueError("no such figure")
        return whole(row, now)

    monkeypatch.setattr(gather, "collect_facts", fail)

    assert gather.gather_due(NOW) == 1

    assert list(IncidentEvidence.objects.values_list("incident_id", flat=True)) == [good.pk]
    assert lacks(caplog.text, f"incident {bad.pk}:", "failed") == []


def test_evidence_of_a_newer_version_is_not_misread(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"]))
    gather.store_facts(row, NOW)
    IncidentEvidence.objects.update(version=gather.VERSION + 1)

    evidence_now = evidence(row, NOW)

    assert (evidence_now.gathered_at, evidence_now.paths) == (None, ())


# --- the likely cause


def transfers(path, rates_bps, since, every=timedelta(hours=1)):
    """Throughput tests of a path, delivered by its source."""
    results = [
        delivered(path, throughput(rate_bps, at=since + number * every), number + 1)
        for number, rate_bps in enumerate(rates_bps)
    ]
    store(path.source.site_id, batch(*results), NOW)


def test_loss_without_delay_names_no_direction(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])

    cause = gathered(incident(finding(paths["slac → cern"]))).cause

    assert (cause.fault, cause.toward) == (Fault.LOSS, None)
    place = ("between cern and slac", "direction not known")
    assert lacks(cause.sentence, *place, " 25% since the onset", "(20 of 80 packets)", "before < 0.23%") == []


def test_throughput_tests_show_the_direction_of_loss(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    transfers(out, [2.7e7, 2.6e7, 2.8e7, 4e5], NOW - timedelta(minutes=190))
    transfers(back, [2.7e7, 2.8e7, 2.6e7, 2.68e7], NOW - timedelta(minutes=185))

    cause = gathered(incident(finding(back))).cause

    assert (cause.fault, cause.toward) == (Fault.LOSS, ("slac", "cern"))
    assert lacks(cause.sentence, "slac → cern 400 kbit/s (was 27 Mbit/s)", "toward cern") == []
    assert lacks(cause.sentence, "cern → slac 26.8 Mbit/s (was 27 Mbit/s)", "toward cern") == []
    assert "slac to cern" in cause.next_step


def test_slow_tests_in_both_directions_show_no_direction(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    transfers(out, [2.7e7, 2.6e7, 2.8e7, 4e5], NOW - timedelta(minutes=190))
    transfers(back, [2.7e7, 2.8e7, 2.6e7, 5e5], NOW - timedelta(minutes=185))

    cause = gathered(incident(finding(out))).cause

    assert (cause.fault, cause.toward) == (Fault.LOSS, None)
    assert "both directions" in cause.sentence


def real_test(path, name, at, number, test="tcp"):
    """A recorded transfer of iperf3, delivered by the source of the path as if it had begun at `at`, and diagnosed."""
    run = msgspec.structs.replace(read(REAL_RUNS / f"{name}.json"), started_at=at, target=path.destination.name)
    assert store(path.source.site_id, batch(delivered(path, run, number), number=number), NOW).refused == ()
    diagnose_awaited(NOW)
    ThroughputTest.objects.filter(path_id=path.pk, measured_at=at).update(test=test)


def test_retransmissions_of_tests_on_demand_show_the_direction(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    row = incident(finding(back))
    assert gathered(row).cause.toward is None

    real_test(out, "bbr_loss", NOW - timedelta(minutes=3), 1, "on-demand")
    real_test(back, "bbr", NOW - timedelta(minutes=2), 2, "on-demand")
    # The rate alone tells nothing: with loss, BBR keeps much of it.
    ThroughputTest.objects.filter(path_id=out.pk).update(throughput_bps=2.25e7)
    ThroughputTest.objects.filter(path_id=back.pk).update(throughput_bps=2.72e7)
    at = NOW + timedelta(seconds=10)
    assert gather.gather_due(at) == 1
    assert gather.gather_due(at + timedelta(seconds=10)) == 0

    shown = evidence(row, at)
    assert (shown.cause.fault, shown.cause.toward, shown.gathered_at) == (Fault.LOSS, ("slac", "cern"), at)
    assert lacks(shown.cause.sentence, "slac → cern 22.5 Mbit/s", " retransmitted", "toward cern") == []
    assert "no throughput test" not in shown.cause.sentence


def test_the_losses_of_a_sender_in_its_own_queue_show_no_direction(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    real_test(out, "bbr_short_queue_180ms", NOW - timedelta(minutes=3), 1)
    real_test(back, "bbr_180ms", NOW - timedelta(minutes=2), 2)
    ThroughputTest.objects.update(throughput_bps=2.5e7)

    cause = gathered(incident(finding(out))).cause

    stored = ThroughputTest.objects.get(path_id=out.pk)
    assert (stored.verdict, stored.retransmits > 1000) == ("bottleneck queue", True)
    assert (cause.fault, cause.toward) == (Fault.LOSS, None)


def test_loss_that_a_path_always_had_shows_no_direction(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    for number, minutes in enumerate((180, 120, 3), 1):
        real_test(out, "bbr_loss", NOW - timedelta(minutes=minutes), number)
    real_test(back, "bbr", NOW - timedelta(minutes=2), 4)
    ThroughputTest.objects.update(throughput_bps=2.5e7)

    cause = gathered(incident(finding(out))).cause

    assert (cause.fault, cause.toward) == (Fault.LOSS, None)


def test_a_filling_queue_is_named(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
    bursts(out, BEGAN, NOW, [20.3, 35.2, 38.1], lost=1)

    cause = gathered(incident(finding(out))).cause
    assert cause.fault is Fault.QUEUE
    assert lacks(cause.sentence, "drops packets", "(25% since the onset") == []


def busy(path):
    """An agent at the source of the path that reports a load of 8.5 on 2 CPUs."""
    AgentHealth.objects.create(
        site=path.source.site, accepted_at=NOW, agent_version="1", queued=0, dropped=0,
        health={"load_1min": 8.5, "cpus": 2},
    )  # fmt: skip


def rtts(path, before_ms, after_ms):
    bursts(path, NOW - timedelta(hours=6), BEGAN, before_ms)
    bursts(path, BEGAN, NOW, after_ms)


def test_a_longer_route_is_not_attributed_to_an_agents_load(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    for path in (out, back):
        rtts(path, [20.0, 20.2, 20.1, 20.4], [80.0, 80.2, 80.1, 80.4])
    busy(out)

    facts = gathered(incident(finding(out, "rtt", since=BEGAN, figures={"figure": "median"})))

    assert lacks(facts.likely, "longer route", "between cern and slac", "or a queue") == []
    assert lacks(facts.likely, "minimum RTT rose", " 60.0 ms", "median", " 60.0 ms") == []
    assert (facts.began.at, facts.began.earliest, facts.began.latest) == (BEGAN, BEGAN - MINUTE, BEGAN)


def test_load_is_not_the_cause_where_the_minimum_changed(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    rtts(out, [20.0, 20.2, 20.1, 20.4], [80.0, 80.2, 80.1, 80.4])
    rtts(back, [20.0, 20.2, 20.1, 20.4], [20.0, 20.2, 20.1, 20.4])
    busy(out)

    cause = gathered(incident(finding(out, "rtt", since=BEGAN, figures={"figure": "median"}))).cause

    assert cause.fault is Fault.ROUTE


def test_load_is_not_the_cause_where_the_reverse_path_is_slow(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    for path in (out, back):
        rtts(path, [20.0, 20.2, 20.1, 20.4], [20.3, 35.0, 38.0, 41.0])
    busy(out)

    cause = gathered(incident(finding(out, "rtt", since=BEGAN, figures={"figure": "median"}))).cause

    assert cause.fault is Fault.QUEUE


def test_load_is_the_cause_where_only_the_agents_pings_are_slow(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    rtts(out, [20.0, 20.2, 20.1, 20.4], [20.3, 35.0, 38.0, 41.0])
    rtts(back, [20.0, 20.2, 20.1, 20.4], [20.0, 20.2, 20.1, 20.4])
    busy(out)

    cause = gathered(incident(finding(out, "rtt", since=BEGAN, figures={"figure": "median"}))).cause

    assert cause.fault is Fault.AGENT
    assert lacks(cause.sentence, "slac itself", "load 8.5 on 2 CPUs") == []


def test_the_sites_page_evaluates_the_load_as_incidents_do(paths, settings):
    settings.LOCAL_READ = True
    busy(paths["slac → cern"])

    (card,) = (card for card in load_sites(NOW).cards if card.site.name == "slac")

    assert card.state is AgentState.NOTICE
    assert "load 8.5 on 2 CPUs (above 2 per CPU)" in [problem.text for problem in card.findings]


def test_another_ttl_of_replies_is_another_route(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2], ttl=54)
    bursts(out, BEGAN, NOW, [40.0, 40.2], ttl=51)

    facts = gathered(incident(finding(out, "rtt", since=BEGAN)))

    ttl = ("TTL", "slac → cern", "from 54 to 51")
    changed = ("route from cern to slac changed", "minimum RTT", " +20.0 ms")
    assert lacks(facts.likely, "Route change", "between cern and slac", *ttl, *changed) == []


def test_loss_of_large_packets_only_is_named(paths):
    out = paths["slac → cern"]
    for size in (100, 1000):
        bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0] * 10, size=size)
    bursts(out, BEGAN, NOW, [20.0] * 10)
    bursts(out, BEGAN, NOW, [20.0] * 5, lost=5, size=1000)

    cause = gathered(incident(finding(out))).cause
    assert cause.fault is Fault.LARGE_PACKETS
    assert "50% loss at 1000 bytes" in cause.sentence


def test_a_name_that_resolves_to_another_address_is_named(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0], address="192.0.2.2")
    bursts(out, BEGAN, NOW, [40.0], address="192.0.2.99")

    cause = gathered(incident(finding(out, "rtt", since=BEGAN))).cause
    assert cause.fault is Fault.ADDRESS
    assert lacks(cause.sentence, "DNS", "192.0.2.2 ", "now resolves to 192.0.2.99,", "before to 192.0.2.2.") == []


def test_an_interruption_reported_by_a_router_is_named(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0] * 10)
    router_error = {"name": "host_unreachable", "icmp_type": 3, "icmp_code": 1, "router": "203.0.113.7", "count": 10}
    bursts(out, BEGAN, NOW, [], lost=10, errors=[router_error], ttl=None)

    facts = gathered(incident(finding(out, "unreachable", since=BEGAN)))

    assert lacks(facts.likely, "interrupted", " 203.0.113.7,", "host unreachable", "(200 times)") == []
    assert (facts.began.at, facts.began.latest) == (BEGAN, BEGAN)


def test_a_silent_agent_and_a_failing_agent_are_distinguished(paths):
    out = paths["slac → cern"]
    AgentHealth.objects.create(
        site=out.source.site, accepted_at=BEGAN, agent_version="1", queued=0, dropped=0, health=None
    )
    silent = gathered(incident(finding(out, "no_data", since=BEGAN)))
    suspects = ("machine", "service", "route to the centre", "down")
    assert lacks(silent.likely, "No report", "agent of slac", " 20 min", *suspects) == []
    assert "answered pings" not in silent.likely

    bursts(out, BEGAN, NOW, [], outcome="not_permitted", detail="ping_group_range")

    failing = gathered(queries.incident_with_paths(silent.incident_id)).likely
    assert lacks(failing, "tests fail", "not_permitted", "ping_group_range") == []


def test_an_agent_with_nic_drops_is_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    AgentHealth.objects.create(
        site=out.source.site, accepted_at=NOW, agent_version="1", queued=0, dropped=0, health={},
        drops_past=[[(BEGAN - MINUTE).timestamp(), 70], [NOW.timestamp(), 1270]],
    )  # fmt: skip

    facts = gathered(incident(finding(out)))

    assert lacks(facts.likely, "agent of slac itself", " 1,200 NIC drops", "pings from other sites", "normal") == []
    assert lacks(facts.agents[0].text, "agent of slac", "last report 0 s before", " 1,200 NIC drops") == []


def test_an_undetermined_cause_is_reported_as_unknown(paths):
    bursts(paths["slac → cern"], NOW - timedelta(hours=6), NOW, [20.0])

    assert gathered(incident(finding(paths["slac → cern"]))).likely.startswith("Undetermined")


# --- the ticket


def test_the_ticket_has_addresses_figures_and_excluded_causes(paths, settings):
    settings.PUBLIC_URL = "https://soundings.example.org"
    lossy(paths["slac → cern"], paths["cern → slac"])
    shares = [Share("paths to slac", 0, 2), Share("elsewhere", 1, 3)]
    row = incident(
        finding(paths["slac → cern"], figures={"sent": 80, "lost": 20}, severity=Severity.CRITICAL), shares=shares
    )

    text = ticket_text(row, gathered(row))

    assert lacks(text.splitlines()[0], "loss 25%", "cern ↔ slac", "since 2026-11-21 09:45 UTC") == []
    for part in (
        "(critical)",
        "paths to slac: normal (2 paths)",
        "elsewhere: 1 of 3 paths bad",
        "slac → cern: 192.0.2.1 to 192.0.2.2, IPv4",
        "20 of 80",
        "25% (16% to 35.9%)",
        "< 0.23%",
        "TTL of replies        54",
        "All times UTC.",
        f"https://soundings.example.org/incidents/{row.pk}/",
    ):
        assert part in text
    assert "None" not in text
    assert "nan" not in text


def test_a_newly_opened_incident_has_a_ticket(paths):
    row = incident(finding(paths["slac → cern"]))

    assert "Pending: evidence is being gathered." in ticket_text(row, evidence(row, NOW))


def test_the_ticket_names_outcomes_as_the_pages_do(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"]))
    test = HostTest("slac → cern", BEGAN, NOW, "refused")
    failed = FailedBurst("slac → cern", BEGAN, "tool_failure", None)

    text = ticket_text(row, replace(gathered(row), own_tests=(test,), failures=(failed,)))

    assert lacks(text, "UTC test error", "UTC, no connection") == []
    assert "refused" not in text
