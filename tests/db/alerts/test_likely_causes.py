"""The likely cause of an incident, by the bursts, throughput tests and agents around its onset."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.agents.models import AgentHealth
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import queries
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.models import ThroughputTest
from monitor.mesh.models import Host
from monitor.web.pages.sites.load import AgentState, load_sites
from probes.packets.spec import OTHER_ADDRESS
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import BEGAN, MINUTE, NOW, bursts, finding, gathered, incident, lossy
from tests.db.mesh_of_three import batch, delivered, throughput
from tests.deliveries import store
from tests.diagnosis.reading import read
from tests.facts import lacks

pytestmark = pytest.mark.django_db
REAL_RUNS = Path(__file__).parents[2] / "fixtures" / "iperf3" / "diagnosis"


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))


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


def test_loss_in_the_first_minute_after_a_start_is_named_with_its_direction(paths):
    """Twelve pings before do not prove that it is new; it is a loss all the same, and the tests tell its direction."""
    out, back = paths["slac → cern"], paths["cern → slac"]
    for path in (out, back):
        bursts(path, BEGAN - 3 * MINUTE, BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [20.0, 20.2, 20.1], lost=1)
    transfers(out, [4e5], NOW - timedelta(minutes=9))
    transfers(back, [4.8e7], NOW - timedelta(minutes=8))

    cause = gathered(incident(finding(out), finding(back))).cause

    assert (cause.fault, cause.toward) == (Fault.LOSS, ("slac", "cern"))
    # The interval of none of 12 is up to 26%; that of 20 of 80 from 16%.
    assert (
        lacks(
            cause.sentence,
            "cern → slac 48 Mbit/s; slac → cern 400 kbit/s, so toward cern",
            "25% since the onset",
            "before <",
        )
        == []
    )


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


def test_a_test_of_one_direction_names_the_untested_one(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    real_test(out, "bbr", NOW - timedelta(minutes=190), 1)
    transfers(back, [2.7e7], NOW - timedelta(minutes=185))
    real_test(out, "bbr", NOW - timedelta(minutes=3), 2)

    sentence = gathered(incident(finding(out))).cause.sentence

    assert "no test of cern → slac since the onset" in sentence
    assert "clearly slower" not in sentence
    assert re.search(r"slac → cern \S+ Mbit/s \(was .*\), \S+ retransmitted", sentence)
    assert "retransmitted (was" not in sentence, "of a single test before"


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


def test_losses_far_below_the_usual_rate_are_not_of_a_queue(paths):
    """The same transfer, on a path that carried far more before the onset."""
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)
    transfers(out, [1.2e8] * 9, NOW - timedelta(minutes=550))
    ThroughputTest.objects.filter(path_id=out.pk).update(congestion_control="bbr")
    real_test(out, "bbr_short_queue_180ms", NOW - timedelta(minutes=3), 19)

    cause = gathered(incident(finding(out))).cause

    assert ThroughputTest.objects.get(path_id=out.pk, measured_at__gte=BEGAN).verdict == "loss"
    assert " retransmitted" in cause.sentence
    assert "queue of the tests" not in cause.sentence


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
    assert (facts.began.at, facts.began.earliest) == (BEGAN, BEGAN - MINUTE)
    assert BEGAN <= facts.began.latest <= BEGAN + timedelta(seconds=9.1), "the first burst at the new RTT takes 9 s"


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


def test_a_private_address_that_never_answered_is_behind_nat(paths):
    out = paths["slac → cern"]
    Host.objects.filter(pk=out.destination_id).update(address="10.1.0.7")
    bursts(out, NOW - timedelta(hours=6), NOW, [], lost=10, ttl=None)

    cause = gathered(incident(finding(paths["slac → cern"], "unreachable", since=BEGAN))).cause

    assert lacks(cause.sentence, "10.1.0.7", "private address") == []
    assert lacks(cause.next_step, "public address", "behind_nat = true") == []


def test_a_site_that_only_measures_outwards_is_behind_nat(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    bursts(out, NOW - timedelta(hours=6), NOW, [], lost=10, ttl=None)
    bursts(back, NOW - timedelta(hours=6), NOW, [20.0] * 10)

    cause = gathered(incident(finding(out, "unreachable", since=BEGAN))).cause
    assert lacks(f"{cause.sentence} {cause.next_step}", "its own pings", "NAT", "behind_nat = true") == []

    bursts(out, NOW - timedelta(hours=8), NOW - timedelta(hours=7), [20.0] * 10)

    cause = gathered(incident(finding(out, "unreachable", since=BEGAN))).cause
    assert "NAT" not in f"{cause.sentence} {cause.next_step}", "it was reached before"


def test_an_interruption_reported_by_a_router_is_named(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0] * 10)
    router_error = {"name": "host_unreachable", "icmp_type": 3, "icmp_code": 1, "router": "203.0.113.7", "count": 10}
    bursts(out, BEGAN, NOW, [], lost=10, errors=[router_error], ttl=None)

    facts = gathered(incident(finding(out, "unreachable", since=BEGAN)))

    assert lacks(facts.likely, "interrupted", " 203.0.113.7,", "host unreachable", "(200 times)") == []
    last_reply = BEGAN - timedelta(minutes=1) + timedelta(seconds=9)  # to the tenth packet of the burst before
    assert facts.began.earliest <= last_reply <= facts.began.at == BEGAN <= facts.began.latest


def test_replies_from_another_address_are_named(paths):
    out = paths["slac → cern"]
    bursts(out, NOW - timedelta(hours=6), BEGAN, [20.0] * 10)
    reply = {"name": OTHER_ADDRESS, "icmp_type": 0, "icmp_code": 0, "router": "192.0.2.99", "count": 10}
    bursts(out, BEGAN, NOW, [], lost=10, errors=[reply], ttl=None)

    cause = gathered(incident(finding(out, "unreachable", since=BEGAN))).cause

    assert lacks(f"{cause.sentence} {cause.next_step}", "192.0.2.99", "does not count", "(200 times)", "asked") == []
    assert lacks(cause.sentence, "interrupted at", "is down") == ["interrupted at", "is down"]


def test_a_silent_agent_and_a_failing_agent_are_distinguished(paths):
    out = paths["slac → cern"]
    AgentHealth.objects.create(
        site=out.source.site, accepted_at=BEGAN, agent_version="1", queued=0, dropped=0,
        health={"load_1min": 8.5, "cpus": 2},
    )  # fmt: skip
    silent = gathered(incident(finding(out, "no_data", since=BEGAN)))
    suspects = ("machine", "service", "route to the centre", "down")
    assert lacks(silent.likely, "No report", "agent of slac", " 20 min", *suspects) == []
    assert "last reported: load 8.5 on 2 CPUs" in silent.likely, "not in the present tense"
    assert "answers pings" not in silent.likely

    bursts(out, BEGAN, NOW, [], outcome="not_permitted", detail="ping_group_range")

    failing = gathered(queries.incident_with_paths(silent.incident_id)).likely
    assert lacks(failing, "tests fail", "not permitted", "ping_group_range") == []


def test_an_agent_with_nic_drops_is_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    AgentHealth.objects.create(
        site=out.source.site, accepted_at=NOW, agent_version="1", queued=0, dropped=0, health={},
        drops_past=[[(BEGAN - MINUTE).timestamp(), 70], [NOW.timestamp(), 1270]],
    )  # fmt: skip

    facts = gathered(incident(finding(out)))

    assert lacks(facts.likely, "agent of slac itself", " 1,200 NIC drops", "pings from other sites", "normal") == []
    told = ("agent of slac", "last report 0 s before this evidence", " 1,200 NIC drops")
    assert lacks(facts.agents[0].text, *told) == []


def test_an_undetermined_cause_is_reported_as_unknown(paths):
    bursts(paths["slac → cern"], NOW - timedelta(hours=6), NOW, [20.0])

    assert gathered(incident(finding(paths["slac → cern"]))).likely.startswith("Undetermined")


def test_a_packet_from_before_the_onset_does_not_hide_a_longer_route(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    for path in (out, back):
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN + MINUTE, NOW, [80.0, 80.2, 80.1, 80.4])
    bursts(out, BEGAN, BEGAN + MINUTE, [80.0, 80.2, 80.1, 80.4])
    bursts(back, BEGAN, BEGAN + MINUTE, [20.1, 80.2, 80.1, 80.4])

    found = gathered(incident(finding(out, "rtt"), finding(back, "rtt")))

    assert found.cause.fault is Fault.ROUTE
    assert lacks(found.cause.sentence, "the minimum RTT rose by 60.0 ms, the median by 60.0 ms") == []
    assert {side.after.rtt_min_ms for side in (found.paths[0].there, found.paths[0].back)} == {80.0}


def test_different_rises_of_the_minimum_are_said_of_each_path(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    for path, low_ms in ((out, 80.0), (back, 20.0)):
        bursts(path, NOW - timedelta(hours=6), BEGAN, [20.0, 20.2, 20.1, 20.4])
        bursts(path, BEGAN, NOW, [low_ms, 80.2, 80.1, 80.4])

    cause = gathered(incident(finding(out, "rtt"), finding(back, "rtt"))).cause

    assert cause.fault is Fault.UNKNOWN
    there = "on slac → cern the minimum RTT rose by 60.0 ms"
    assert lacks(cause.sentence, there, "on cern → slac the minimum RTT rose by 0.0 ms") == []
