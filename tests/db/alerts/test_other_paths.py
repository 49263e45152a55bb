"""The other paths of an incident: those with a loss being checked, or without newer data, are not called normal."""

from __future__ import annotations

from datetime import timedelta

import pytest
from scipy.stats import beta

from monitor.alerts import other_paths
from monitor.alerts.detect import suspects
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.detect.shares import Share
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from tests.db.planted_faults import Planted, at, between, look_at, plant, site
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 600}, "unreachable": {}, "rtt": {}}


def least_loss(path_ids, since):
    """The lower bound with 95% confidence of the loss of the worst of these paths since then."""
    bursts = Burst.objects.filter(path_id__in=path_ids, measured_at__gte=since).values_list(
        "path_id", "sent", "received"
    )
    ratios = []
    for path_id in path_ids:
        counts = [(sent, sent - received) for of, sent, received in bursts if of == path_id]
        sent, lost = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        ratios.append(float(beta.ppf(0.05, lost, sent - lost + 1)) if lost >= 3 else 0.0)
    return max(ratios)


def test_a_path_with_a_loss_being_checked_is_not_called_normal():
    """The RTT of desy ↔ ornl is longer, and slac ↔ ornl loses 3%, which is no incident yet."""
    faults = [
        Planted(between("desy", "ornl"), 0.0, delay_ms=60.0),
        Planted(between("slac", "ornl"), 20.0, lost_ratio=0.03),
    ]
    paths, rows = plant(faults, 440, 2, **RULES)
    lossy = [path.pk for name, path in paths.items() if {"slac", "ornl"} == set(name.split(" → "))]

    looks = 0
    for at_s, _, lasting in look_at(rows, range(140, 440, 20)):
        effects = {rule_of(row.rule).effect for of in lasting.values() for row in of.paths.all()}
        if Effect.LOSS in effects or least_loss(lossy, at(at_s - 300.0)) <= 0.011:
            continue
        for incident in lasting.values():
            near = [share for share in incident.shares if share["where"].endswith("ornl")]
            looks += bool(near)
            assert not near or any(share.get("unclear") for share in near), incident.shares
    assert looks


@pytest.mark.parametrize("excluded", [False, True])
def test_paths_without_newer_data_are_not_called_normal(excluded):
    """All paths of ornl are cut; of those except one, the newest bursts are from two minutes before, or were sent
    during throughput tests. Those beside ornl deliver."""
    paths, rows = plant([Planted(site("ornl"), 0.0, lost_ratio=1.0)], 80, **RULES)
    of_site = {path.pk for name, path in paths.items() if "ornl" in name.split(" → ")}
    late = of_site - {paths["cern → ornl"].pk}
    for row in rows:
        row.during_test = excluded and row.path_id in late and row.measured_at > at(-120)
    delivered = [row for row in rows if excluded or row.path_id not in late or row.measured_at <= at(-120)]

    told = [
        (now, incident) for _, now, lasting in look_at(delivered, range(20, 100, 10)) for incident in lasting.values()
    ]

    assert told
    for now, incident in told:
        assert [row.path.pk for row in incident.paths.all()] == [paths["cern → ornl"].pk]
        shares = {share["where"]: share for share in incident.shares}
        # 3 + 3 paths of ornl, 3 + 3 of cern, each less the bad path; 2 paths between desy and slac.
        for where, known, unclear in (("other paths to ornl", 2, 2), ("paths from ornl", 3, 3)):
            share = Share(**shares[where])
            assert (share.bad, share.known, share.unclear, share.overdue) == (0, known, unclear, unclear), share.text
            assert lacks(share.text, "not clear yet", "no newer data") == []
            assert "normal" not in share.text
        assert Share(**shares["elsewhere"]).text == "all other paths normal (2 paths)"
        tally = load_mesh_state(freshness.load(), now).tally
        assert (tally.own_tests if excluded else tally.overdue) >= len(late)


def test_an_incident_of_later_is_no_evidence_of_its_time():
    """The RTT of desy ↔ ornl is longer, and its results end; cern ↔ ornl is cut a minute and a half later."""
    faults = [
        Planted(between("desy", "ornl"), 0.0, delay_ms=60.0),
        Planted(between("cern", "ornl"), 290.0, lost_ratio=1.0),
    ]
    paths, rows = plant(faults, 360, 2, **RULES)
    slow = {path.pk for name, path in paths.items() if set(name.split(" → ")) == {"desy", "ornl"}}
    delivered = [row for row in rows if row.path_id not in slow or row.measured_at < at(200)]

    told = []
    for at_s, _, lasting in look_at(delivered, range(170, 380, 15)):
        if "desy ↔ ornl" in lasting and "cern ↔ ornl" in lasting:
            told.append(at_s)
            shares = [Share(**share) for share in lasting["desy ↔ ornl"].shares]
            assert [share.in_other_incidents for share in shares] == [0] * len(shares), shares
            assert lacks("; ".join(share.text for share in shares), "paths to ornl: normal (2 paths)") == []
    assert len(told) > 1


def test_an_incident_of_the_same_time_is_counted_apart():
    """The RTT of desy ↔ ornl goes on, while cern ↔ ornl is cut."""
    faults = [
        Planted(between("desy", "ornl"), 0.0, delay_ms=60.0),
        Planted(between("cern", "ornl"), 290.0, lost_ratio=1.0),
    ]
    _, rows = plant(faults, 940, 2, **RULES)

    # Ten minutes after the begin of the other, the paths of this are known to go on.
    *_, (_, _, lasting) = look_at(rows, (*range(170, 395, 15), 920, 940))

    shares = [Share(**share) for share in lasting["desy ↔ ornl"].shares if share["where"].endswith("ornl")]
    assert [share.in_other_incidents for share in shares] == [1, 1], shares


def packets_since(path_ids, since_s, now):
    """The packets sent and lost of each path in bursts that began since then and were there by now."""
    bursts = Burst.objects.filter(path_id__in=path_ids, measured_at__gte=at(since_s), measured_at__lt=now)
    counts = dict.fromkeys(path_ids, (0, 0))
    for path_id, sent, received in bursts.values_list("path_id", "sent", "received"):
        counts[path_id] = counts[path_id][0] + sent, counts[path_id][1] + sent - received
    return counts


@pytest.mark.parametrize(
    ("earlier", "fault", "cause", "least_packets"),
    [
        # All packets of ornl are lost until a minute and a half before: (1 - 0.2) ** 60 is 1.5e-6.
        (Planted(site("ornl"), -250.0, 160.0, lost_ratio=1.0), Planted(between("cern", "slac"), 0.0, lost_ratio=0.2),
         "cern ↔ slac", 60),
        # Without any packet getting through, the first that does tells.
        (Planted(between("cern", "slac"), -170.0, 40.0, lost_ratio=0.4), Planted(site("ornl"), 0.0, lost_ratio=1.0),
         "ornl", 1),
    ],
    ids=["loss", "outage"],
)  # fmt: skip
def test_what_a_path_lost_before_an_incident_does_not_count(earlier, fault, cause, least_packets):
    paths, rows = plant([earlier, fault], 200, 3, **RULES)
    own = {path.pk for name, path in paths.items() if fault.hits(*name.split(" → "))}
    others = [path.pk for path in paths.values() if path.pk not in own]

    looks, sentences = 0, []
    for at_s, now, lasting in look_at(rows, range(-240, 200, 10)):
        incident = lasting.get(cause)
        if incident is None or incident.is_pending or set(incident.path_ids) != own:
            continue
        counts = packets_since(others, 0.0, now - timedelta(seconds=10)).values()
        assert sum(lost for _, lost in counts) == 0
        if min(sent for sent, _ in counts) < least_packets:
            continue
        looks += 1
        shares = [Share(**share) for share in incident.shares]
        assert [(share.where, share.unclear) for share in shares if share.unclear] == [], (at_s, shares)
        sentences.append(load_mesh_state(freshness.load(), now).sentence)
    assert looks > 5
    # All others are called normal, or back to normal after the earlier incident.
    assert [said for said in sentences if "exclude" in said or lacks(said, " normal.")] == [], sentences


def test_packets_since_an_onset_are_read_for_few_incidents_of_an_evaluation(monkeypatch):
    """In a storm each of thousands of incidents would read those of hundreds of paths."""
    earlier = Planted(site("ornl"), -250.0, 160.0, lost_ratio=1.0)
    _, rows = plant([earlier, Planted(between("cern", "slac"), 0.0, lost_ratio=0.2)], 460, 3, **RULES)
    asked, read = [], {0: 0, 1: 0}
    monkeypatch.setattr(suspects, "clear_since", lambda *_, **__: asked.append(1) or set())
    for number, _ in enumerate(look_at(rows, range(-240, 460, 20))):
        read[other_paths.MOST_INCIDENTS if number else 0] += len(asked)
        asked.clear()
        monkeypatch.setattr(other_paths, "MOST_INCIDENTS", number % 2)

    assert read[0] == 0
    assert read[1] > 0
