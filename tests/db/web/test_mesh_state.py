"""The sentence on the whole mesh, on pages and in the API, on planted measurements judged by the rules themselves."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import numpy as np
import pytest
from django.db import connection
from django.utils import timezone

from monitor.alerts.detect import rtt_progress
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import Burst
from monitor.archive.queries.path_states import MaintainedPlaces, path_states
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Group, Measurement, MeasurementPeriod, Mesh, Path, Site, Test
from monitor.overview import mesh_state
from monitor.overview.wide.remembered_states import RememberedStates
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.incident_rows import HOUR, MINUTE, NOW, lossy, watched
from tests.db.pages_mesh import throughput
from tests.facts import lacks

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)
LOCAL = {"host": "localhost"}
PAGES = ["/", "/map/", "/incidents/", "/sites/"]


class Clock:
    now = NOW


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    Clock.now = NOW
    monkeypatch.setattr(timezone, "now", lambda: Clock.now)
    return Clock


@pytest.fixture
def state(client):
    def get():
        answer = client.get("/api/v1/state", headers=LOCAL)
        assert answer.status_code == 200, answer.content
        got = answer.json()
        states = ("with_problems", "in_maintenance", "normal", "being_checked", "overdue", "awaited", "without_data")
        assert sum(got[name] for name in states) == got["paths"]
        return got

    return get


def clean(*paths, until=NOW, minutes=130):
    for path in paths:
        make_bursts(path, [0] * minutes, until - minutes * MINUTE)


def judged(now=NOW):
    before = lifecycle.CONFIRM_S
    lifecycle.CONFIRM_S = 0
    try:
        evaluate(now)
    finally:
        lifecycle.CONFIRM_S = before


@pytest.fixture
def mark(client):
    def get():
        html = client.get("/sites/", headers=LOCAL).content.decode()
        return re.search(r'class="mesh-state (\w+)"', html)[1]

    return get


@pytest.fixture
def paths():
    return watched()


def test_all_paths_with_data_and_no_incident_are_normal(state, mark, paths):
    clean(*paths.values())
    judged()

    got = state()

    assert (got["sentence"], mark()) == ("All 6 paths are normal.", "calm")
    assert (got["paths"], got["normal"], got["open_incidents"]) == (6, 6, [])


def test_a_single_path_is_normal_in_the_singular(state):
    paths = make_mesh(["slac", "cern"], NOW - 30 * HOUR, loss={"above_ratio": 0.01})
    Measurement.objects.filter(path=paths["cern → slac"]).update(retired_at=NOW)
    clean(*paths.values())
    judged()

    assert state()["sentence"] == "The path is normal."


def test_an_open_incident_is_named_with_figure_and_age(state, paths):
    clean(*(path for name, path in paths.items() if name not in ("slac → cern", "cern → slac")))
    incident = lossy(paths["slac → cern"])
    incident.began_at = NOW - 9 * MINUTE
    incident.save()

    got = state()

    # 2 of 10 packets are lost; the rules find it in the pings of one end only, which does not tell the direction.
    figure = "1 of 6 paths has problems", "cern ↔ slac", "loss 20%", "9 min"
    assert lacks(got["sentence"], *figure, "pings from slac, direction unknown", "5 normal") == []
    assert "slac → cern" not in got["sentence"]
    assert got["open_incidents"] == [incident.pk]


def slower(paths, rtt_ms=124.0, after=()):
    """An RTT of 64 ms that is `rtt_ms` since a quarter of an hour, on these paths; then the bursts `after` NOW."""
    for path in paths:
        rtts_ms = [64.0] * 46 + [rtt_ms] * 14 + list(after)
        copy_rows(
            Burst(
                path_id=path.pk, packet_bytes=100, measured_at=NOW - (60 - number) * MINUTE, outcome="measured",
                sent=10, received=10, duplicates=0, reordered=0, during_test=False,
                rtts_ms=[rtt_ms + (number + packet) % 7 * 0.02 for packet in range(10)],
            )
            for number, rtt_ms in enumerate(rtts_ms)
        )  # fmt: skip
    rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp() for path in paths})


def test_an_rtt_change_is_told_from_before_to_now(state):
    paths = make_mesh(["slac", "ornl"], NOW - 60 * 24 * HOUR, rtt={})
    slower(paths.values())
    judged()

    got = state()

    assert lacks(got["sentence"], "2 of 2 paths have problems", "ornl ↔ slac RTT 64.1 → 124.1 ms", "14 min") == []
    assert (got["with_problems"], got["normal"]) == (2, 0)


@pytest.mark.parametrize("are_others_measured", [True, False], ids=["two incidents", "one incident"])
def test_problems_that_are_over_are_named_after_the_others(state, clock, are_others_measured):
    paths = make_mesh(["slac", "ornl", "fnal", "anl"], NOW - 60 * 24 * HOUR, rtt={})
    back, lasting = [paths["slac → ornl"], paths["ornl → slac"]], [paths["fnal → anl"], paths["anl → fnal"]]
    slower(back, 124.0, [64.0] * 4)
    slower(lasting, 90.0, [90.0] * 4)
    if are_others_measured:
        clean(*(path for path in paths.values() if path not in back + lasting))
    judged()
    assert Incident.objects.count() == (2 if are_others_measured else 1)
    clock.now = NOW + 4 * MINUTE
    judged(clock.now)

    both = state()["sentence"]

    assert (
        lacks(both, "2 of 12 paths have problems: ", "RTT 64.1 → 90 ms for 18 min", "2 with a problem that is over")
        == []
    )
    if are_others_measured:
        assert lacks(both, ": anl ↔ fnal RTT", "and 1 other incident") == []


def test_incidents_that_only_wait_to_close_are_no_problems(state, clock):
    paths = make_mesh(["slac", "ornl"], NOW - 60 * 24 * HOUR, rtt={})
    slower(paths.values(), 124.0, [64.0] * 4)
    judged()
    clock.now = NOW + 4 * MINUTE
    judged(clock.now)

    facts = (
        "The problems of 2 of 2 paths are over, waiting to close: ",
        "ornl ↔ slac RTT back to 64.",
        "up to 124",
        "18 min",
    )
    assert lacks(state()["sentence"], *facts) == []


def test_a_loss_that_is_being_proven_is_not_called_normal_meanwhile(paths):
    """2% on a path, whose bound of ten minutes is above the rule of 1% now and then."""
    random, lossy_path = np.random.default_rng(4), paths["slac → cern"]
    Test.objects.update(every_s=10)
    for path in paths.values():
        lost = random.binomial(10, 0.02, 240).tolist() if path == lossy_path else [0] * 240
        make_bursts(path, lost, NOW - 40 * MINUTE, every_s=10)
    sentences = []
    for minute in range(-28, 1):
        now = NOW + minute * MINUTE
        freshness.note(RecurringWork.EVALUATION, now)
        sentences.append(mesh_state.load_mesh_state(freshness.load(), now).sentence)

    # But for a gap of 29 bursts without a loss, in which the path is as one whose loss is over.
    told = ["1 path with loss" in sentence for sentence in sentences]
    assert [number for number, is_told in enumerate(told) if not is_told] == [3, 4, 5, 6], sentences

    # Once ten minutes without a loss prove that it is over, the path is normal.
    for path in paths.values():
        make_bursts(path, [0] * 65, NOW, every_s=10)
    now = NOW + 10.8 * MINUTE
    freshness.note(RecurringWork.EVALUATION, now)
    assert "All 6 paths are normal." in mesh_state.load_mesh_state(freshness.load(), now).sentence


def test_of_several_incidents_the_worst_is_named(state):
    rules = {"loss": {"above_ratio": 0.01, "window_s": 600}, "rtt": {}}
    paths = make_mesh(["slac", "cern", "fnal", "anl"], NOW - 60 * 24 * HOUR, **rules)
    slow = [paths["fnal → anl"], paths["anl → fnal"]]
    slower(slow)
    for name, path in paths.items():
        if path not in slow:
            make_bursts(path, [0] * 120 + [8 if name == "slac → cern" else 0] * 10, NOW - 130 * MINUTE)
    judged()

    got = state()

    assert len(got["open_incidents"]) == 2
    assert lacks(got["sentence"], "3 of 12 paths", "cern ↔ slac loss 80%", "1 other incident", "9 normal") == []


def test_an_incident_that_goes_on_is_named_before_those_over(state):
    rules = {"loss": {"above_ratio": 0.01, "window_s": 600}, "rtt": {}}
    paths = make_mesh(["slac", "cern", "fnal", "anl"], NOW - 60 * 24 * HOUR, **rules)
    slow = [paths["fnal → anl"], paths["anl → fnal"]]
    slower(slow)
    for name, path in paths.items():
        if path not in slow:
            make_bursts(path, [0] * 120 + [8 if name == "slac → cern" else 0] * 10, NOW - 130 * MINUTE)
    judged()
    loss = IncidentPath.objects.get(rule="loss")
    loss.level = {
        "unit": "loss_ratio",
        "now": 0.0,
        "peak": 0.8,
        "sent": 5,
        "window_s": 60.0,
        "is_ended": True,
        "recovered_at": "2026-11-21T12:29:00Z",
        "since": "2026-11-21T12:29:00Z",
    }
    loss.save()

    got = state()["sentence"]

    facts = ("2 of 12 paths have problems: anl ↔ fnal RTT", "and 1 other incident", "1 with a problem that is over")
    assert lacks(got, *facts, "9 normal") == []


def test_with_a_loss_stated_no_problem_is_called_over(state, paths):
    """Far below the loss at detection, but still lost packets."""
    incident = lossy(paths["slac → cern"])
    row = incident.paths.get()
    row.level = {"unit": "loss_ratio", "now": 0.01, "peak": 0.2, "sent": 500, "window_s": 60.0}
    row.save()

    got = state()["sentence"]

    assert lacks(got, "1 of 6 paths has problems: cern ↔ slac loss ") == []
    assert " over" not in got


def test_a_black_cell_without_an_incident_is_not_called_normal(state, clock, paths):
    """Before the rules have proof the grid shows the loss, and so does the sentence."""
    Test.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    for name, path in paths.items():
        lost = [10, 10, 10] if name == "slac → cern" else [0] * 3
        make_bursts(path, [0] * 60 + lost, NOW - 630 * SECOND, every_s=10)
    freshness.note(RecurringWork.EVALUATION, NOW)

    got = state()

    facts = ("No open incidents", "1 path without replies since ", ", being checked", "5 normal")
    assert lacks(got["sentence"], *facts) == []
    assert "All" not in got["sentence"]
    assert (got["normal"], got["being_checked"]) == (5, 1)


def open_loss(path, level, shares=(), cause="cern ↔ slac"):
    """An open incident of loss of 20% on this path, with this level since two minutes before NOW."""
    row = Incident.objects.create(
        rule="loss", cause=cause, opened_at=NOW, began_at=NOW - 9 * MINUTE, summary="s", shares=list(shares)
    )
    IncidentPath.objects.create(
        incident=row, path=path, rule="loss", sentence="loss", since=NOW - 9 * MINUTE, added_at=NOW,
        figures={"lost": 20, "sent": 100}, level={"unit": "loss_ratio", "peak": 0.2, "window_s": 60.0, **level},
    )  # fmt: skip
    return row


UP = (NOW - 2 * MINUTE).isoformat()
OUTAGE = {"last_reply": (NOW - 9 * MINUTE).isoformat(), "first_reply": UP, "burst_at": UP, "lost": 0}
REPLYING = {"now": 0.0, "sent": 25, "ended_outage": OUTAGE}
LASTING = {"now": 0.2, "sent": 100}
ENDED = {"now": 0.0, "sent": 100, "is_ended": True, "recovered_at": UP, "since": UP}


def test_a_path_that_replies_again_without_loss_is_no_problem(state, paths):
    clean(*paths.values())
    judged()
    open_loss(paths["slac → cern"], REPLYING)

    sentence = state()["sentence"]

    facts = "1 of 6 paths is being checked after an outage", "replies again since 12:28:00 UTC", "no loss", "5 normal"
    assert lacks(sentence, *facts) == []
    assert "problem" not in sentence
    assert mesh_state.load_mesh_state(freshness.load(), NOW).replying_again == 1


def test_a_path_that_replies_again_is_counted_beside_problems(state, paths):
    clean(*paths.values())
    judged()
    open_loss(paths["slac → cern"], REPLYING)
    open_loss(paths["fnal → cern"], LASTING, cause="cern ↔ fnal")

    facts = "1 of 6 paths has problems: ", "and 1 other incident", "1 being checked after an outage", "4 normal"
    assert lacks(state()["sentence"], *facts) == []


@pytest.mark.parametrize(
    ("level", "share", "is_normal"),
    [
        (LASTING, {"unclear": 3}, False),
        (LASTING, {}, True),
        (LASTING, {"unclear": 2, "overdue": 2}, True),
        (ENDED, {"unclear": 3}, True),
        (REPLYING, {"unclear": 3}, True),
    ],
    ids=["unclear", "clear", "without newer data", "over", "replies again"],
)
def test_other_paths_are_normal_unless_their_packets_do_not_tell(state, paths, level, share, is_normal):
    """Once a loss is over, the last count of paths that may have had it is one of the past."""
    clean(*paths.values())
    judged()
    open_loss(paths["slac → cern"], level, [{"where": "elsewhere", "bad": 0, "known": 5, **share}])

    sentence = state()["sentence"]

    assert ("5 normal" in sentence) == is_normal, sentence
    assert ("5 not in an incident (too few packets" in sentence) != is_normal


@pytest.mark.parametrize("is_lossy", [False, True])
def test_a_path_that_may_have_the_loss_of_an_incident_is_named(client, state, paths, is_lossy):
    """It is in the shares of both its sites, and counted once: by its own loss where that is above its rule."""
    unclear = paths["fnal → cern"]
    clean(*(path for path in paths.values() if path != unclear))
    make_bursts(unclear, [0] * 120 + [3 * is_lossy] * 10, NOW - 130 * MINUTE)
    freshness.note(RecurringWork.EVALUATION, NOW)
    share = {"bad": 0, "known": 2, "unclear": 1, "unclear_paths": [unclear.pk]}
    open_loss(paths["slac → cern"], LASTING, [{"where": "paths to cern", **share}, {"where": "elsewhere", **share}])

    got = state()

    reason = "1 path with loss above" if is_lossy else "1 path with packets that do not exclude the loss"
    assert lacks(got["sentence"], "1 of 6 paths has problems", reason, "(fnal → cern", ", 4 normal") == []
    assert (got["normal"], got["being_checked"]) == (4, 1)
    assert got["sentence"].count("fnal → cern") == 1
    if not is_lossy:
        page = unescape(client.get("/", headers=LOCAL).content.decode())
        (cell,) = re.findall(rf'<a id="p{unclear.pk}"[^>]*>.*?</a>', page, re.DOTALL)
        assert lacks(cell, "packets that do not exclude the loss of the incident yet", "△") == []


def test_loss_that_opens_no_incident_is_not_called_normal(state, paths, mark):
    for name, path in paths.items():
        make_bursts(path, [6 if name == "slac → cern" else 0] * 10, NOW - 10 * MINUTE)
    freshness.note(RecurringWork.EVALUATION, NOW)

    assert lacks(state()["sentence"], "No open incidents; 1 path with loss", "alert threshold", "5 normal") == []
    assert mark() == "unknown"


@pytest.mark.parametrize(("above_ratio", "is_checked"), [(0.01, True), (0.05, False)])
def test_a_cell_proven_above_its_rule_is_being_checked(client, state, mark, paths, above_ratio, is_checked):
    """4 of 100 lost are at least 1.4% (95%), a cell that is marked as no problem: its rule says what is normal."""
    Mesh.objects.update(alerts={"loss": {"above_ratio": above_ratio, "window_s": 600}})
    for name, path in paths.items():
        make_bursts(path, [int(name == "slac → cern" and number % 3 == 0) for number in range(10)], NOW - 10 * MINUTE)
    freshness.note(RecurringWork.EVALUATION, NOW)

    got = state()

    (lossy_cell,) = (
        cell for cell in client.get("/api/v1/grid?period=now", headers=LOCAL).json()["cells"] if cell["value"]
    )
    assert (lossy_cell["sent"], lossy_cell["received"]) == (100, 96)
    assert (got["being_checked"], mark()) == ((1, "unknown") if is_checked else (0, "calm"))
    assert ("All 6 paths are normal" in got["sentence"]) == (not is_checked)
    if is_checked:
        assert lacks(got["sentence"], "1 path with loss above", "being checked", "5 normal") == []


def test_a_path_of_a_pending_incident_is_being_checked(state, mark):
    paths = make_mesh(["slac", "ornl", "fnal"], NOW - 60 * 24 * HOUR, rtt={})
    slow = [paths["slac → ornl"], paths["ornl → slac"]]
    slower(slow)
    clean(*(path for path in paths.values() if path not in slow))
    evaluate(NOW)
    assert Incident.objects.get().is_pending

    got = state()

    assert lacks(got["sentence"], "No open incidents; 2 paths being checked", " → ornl: RTT", "4 normal") == []
    assert (got["with_problems"], got["being_checked"], mark()) == (0, 2, "unknown")


def test_paths_without_data_are_not_normal(state, paths):
    silent = [paths["slac → cern"], paths["slac → fnal"]]
    clean(*(path for path in paths.values() if path not in silent))
    clean(*silent, until=NOW - 20 * MINUTE)
    judged()

    got = state()

    assert lacks(got["sentence"], "4 of 6 paths", "2 without data for more than 10 min") == []
    assert "All" not in got["sentence"]
    assert (got["normal"], got["without_data"], got["without_data_s"]) == (4, 2, 600)


def test_failed_bursts_are_no_data(state, paths):
    clean(*paths.values(), until=NOW - 20 * MINUTE)
    for path in paths.values():
        Burst.objects.create(
            path_id=path.pk, packet_bytes=100, measured_at=NOW - MINUTE, outcome="no_route", sent=0, received=0,
            duplicates=0, reordered=0, during_test=False, rtts_ms=[],
        )  # fmt: skip
    judged()

    got = state()

    assert (got["normal"], got["without_data"]) == (0, 6)
    assert "normal." not in got["sentence"]
    assert lacks(got["sentence"], "no path is known to be normal", "6 without data", "of 6 paths") == []


def test_a_slow_test_is_current_for_three_cycles(state, paths):
    Test.objects.update(every_s=1800)
    clean(*paths.values(), until=NOW - 80 * MINUTE)
    judged()

    assert state()["normal"] == 6

    Clock.now = NOW + 15 * MINUTE
    freshness.note(RecurringWork.EVALUATION, Clock.now)
    got = state()
    assert (got["without_data"], got["without_data_s"]) == (6, 5400)
    assert "90 min" in got["sentence"]


def test_a_path_with_throughput_tests_alone_counts_them(state, paths):
    MeasurementPeriod.objects.all().delete()
    Measurement.objects.all().delete()
    tcp = Test.objects.create(name="tcp", kind="throughput", every_s=3600, parameters={})
    for path in (paths["slac → cern"], paths["cern → slac"]):
        Measurement.objects.create(path=path, test=tcp, started_at=NOW - 30 * HOUR)
    throughput(paths["slac → cern"], NOW - 2 * HOUR, 9e8)
    throughput(paths["cern → slac"], NOW - 2 * HOUR, None)
    judged()

    got = state()

    assert (got["paths"], got["normal"], got["without_data"]) == (2, 1, 1)


@pytest.mark.parametrize("scope", ["path", "site", "group", "all"])
def test_paths_in_maintenance_are_counted_apart(state, paths, scope):
    clean(*paths.values())
    judged()
    scopes = {
        "path": actions.QuietScope(path=paths["slac → cern"]),
        "site": actions.QuietScope(site=Site.objects.get(name="fnal")),
        "group": actions.QuietScope(group=Group.objects.get()),
        "all": actions.QuietScope(),
    }
    actions.maintain(scopes[scope], NOW - HOUR, NOW + HOUR, "new router", "ann", NOW)

    got = state()

    # The group has slac and cern; a site's paths are those from it and to it.
    maintained = {"path": 1, "site": 4, "group": 2, "all": 6}[scope]
    assert (got["in_maintenance"], got["normal"]) == (maintained, 6 - maintained)
    assert f"{maintained} in maintenance" in got["sentence"]
    assert "All" not in got["sentence"]


def test_an_open_incident_stays_a_problem_in_maintenance(state, paths):
    lossy(paths["slac → cern"])
    actions.maintain(actions.QuietScope(), NOW - HOUR, NOW + HOUR, "new router", "ann", NOW)

    got = state()

    assert (got["with_problems"], got["in_maintenance"]) == (1, 5)


def test_rules_not_evaluated_lately_leave_the_state_unknown(state, paths):
    lossy(paths["slac → cern"])
    Clock.now = NOW + 5 * MINUTE
    clean(*paths.values(), until=Clock.now, minutes=3)

    got = state()

    assert lacks(got["sentence"], "State unknown", "2026-11-21 12:30 UTC", "1 of 6 paths had problems then") == []
    assert "normal" not in got["sentence"]
    assert got["unknown_since"] == "2026-11-21T12:30:00Z"


def test_before_the_first_evaluation_nothing_is_normal(state, mark, paths):
    Mesh.objects.update(applied_at=NOW - MINUTE)
    clean(*paths.values())

    got = state()

    assert lacks(got["sentence"], "not been evaluated", "6 with data") == []
    assert "normal" not in got["sentence"]
    assert mark() == "unknown"


def test_new_paths_wait_for_their_first_results(state, paths):
    Measurement.objects.update(started_at=NOW - MINUTE)
    judged()
    assert state()["sentence"] == "6 paths are waiting for the first results."

    clean(*[path for name, path in paths.items() if "fnal" not in name], minutes=3)
    got = state()
    assert (got["normal"], got["awaited"]) == (2, 4)
    assert lacks(got["sentence"], "2 of 6 paths", "4 waiting") == []


def test_refused_paths_do_not_wait_for_results(state, paths):
    Measurement.objects.update(started_at=NOW - 5 * MINUTE)
    judged()
    rule = "networks.private: 10.0.0.10 is in 10.0.0.0/8"
    for number, path in enumerate(paths.values(), start=1):
        Burst.objects.create(
            path_id=path.pk, packet_bytes=100, measured_at=NOW - MINUTE, outcome="not_permitted", detail=rule,
            during_test=False, sent=0, received=0, duplicates=0, reordered=0, rtts_ms=[],
        )  # fmt: skip
        sentence = state()["sentence"]
        assert lacks(sentence, f"{number} of 6 paths", "not permitted", "limits.toml", rule) == []
        assert ("waiting" in sentence) is (number < 6)


def test_an_incident_that_ended_lately_is_named(state, paths):
    clean(*paths.values(), minutes=30)
    incident = lossy(paths["slac → cern"], NOW - 30 * MINUTE)
    Incident.objects.update(began_at=NOW - 40 * MINUTE)
    lifecycle.close(incident.pk, [(paths["slac → cern"].pk, "loss")], "over", NOW - 4 * MINUTE)
    freshness.note(RecurringWork.EVALUATION, NOW)

    got = state()

    assert (
        lacks(got["sentence"], "All 6 paths are normal.", "cern ↔ slac loss 20%", "36 min", "resolved 4 min ago") == []
    )
    Clock.now = NOW + 2 * HOUR
    clean(*paths.values(), until=Clock.now, minutes=5)
    freshness.note(RecurringWork.EVALUATION, Clock.now)
    assert state()["sentence"] == "All 6 paths are normal."


def test_without_enabled_rules_nothing_is_called_normal(state, mark, paths):
    Mesh.objects.update(alerts={**Mesh.objects.get().alerts, "loss": {"enabled": False}})
    clean(*paths.values())
    judged()

    got = state()

    assert lacks(got["sentence"], "disabled", "6 measured") == []
    assert "normal" not in got["sentence"]
    assert mark() == "unknown"


def test_without_mesh_or_path_the_sentence_says_so(state):
    assert "No mesh" in state()["sentence"]

    make_mesh(["slac"], NOW)
    got = state()

    assert lacks(got["sentence"], "No path is measured", "two sites") == []
    assert got["paths"] == 0


def test_pages_have_the_sentence_on_top_and_in_the_title(client, paths, state):
    clean(*(path for name, path in paths.items() if name not in ("slac → cern", "cern → slac")))
    lossy(paths["slac → cern"])

    sentence = state()["sentence"]
    title, _, rest = sentence.partition(" 5 normal")
    assert rest == "."
    for address in PAGES:
        html = unescape(client.get(address, headers=LOCAL).content.decode())
        assert title in re.search(r"<title>(.*?)</title>", html)[1], address
        main = re.sub(r"<[^>]*>", "", html[html.index("<main") :])
        assert sentence in " ".join(main.split()), address


@pytest.mark.parametrize(
    ("names", "fact"), [((), "No mesh"), (("slac",), "No path is measured"), (("slac", "cern"), "2 paths are waiting")]
)
def test_a_new_installation_has_a_true_sentence(client, names, fact):
    if names:
        make_mesh(names, NOW, loss={"above_ratio": 0.01})

    for address in PAGES:
        html = unescape(client.get(address, headers=LOCAL).content.decode())
        assert fact in re.search(r'id="mesh-state".*?</section>', html, re.DOTALL)[0], address
        assert fact in re.search(r"<title>(.*?)</title>", html)[1], address


def test_states_agree_with_the_grid(client, paths, state):
    lossy(paths["slac → cern"])
    cells = client.get("/api/v1/grid?period=now", headers=LOCAL).json()["cells"]

    assert state()["with_problems"] == sum(cell["incident_id"] is not None for cell in cells)


def test_a_large_mesh_is_counted_once_in_ten_seconds(state, paths, clock, monkeypatch):
    """Until an incident opens, which counts at once. The newest result of a path becomes ten minutes old meanwhile."""
    monkeypatch.setattr(mesh_state, "LARGE_FROM_PATHS", 6)
    monkeypatch.setattr(mesh_state, "_last_count", [])
    monkeypatch.setattr(mesh_state, "_remembered", RememberedStates())
    gone, *others = (path for ends, path in paths.items() if "fnal" in ends)
    clean(*others)
    clean(gone, until=NOW - 9 * MINUTE + 5 * SECOND)

    def current():
        counts = state()
        return counts["normal"] + counts["overdue"]

    assert current() == 4
    clock.now += timedelta(seconds=9)
    assert current() == 4
    clock.now += timedelta(seconds=1)
    assert current() == 3

    lossy(paths["slac → cern"])
    counts = state()
    assert (counts["with_problems"], counts["normal"]) == (1, 4), "the path and its reverse"


def test_retired_paths_are_not_counted(state, paths):
    Path.objects.filter(pk=paths["slac → cern"].pk).update(retired_at=NOW - timedelta(days=1))
    clean(*paths.values())
    judged()

    assert state()["sentence"] == "All 5 paths are normal."


def test_each_path_is_looked_up_once_for_all_counts(paths, django_assert_num_queries):
    with django_assert_num_queries(1) as queries:
        path_states(NOW, [], MaintainedPlaces())

    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {queries[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "CTE in_state" in plan, f"the state of a path is computed again for each count: {plan}"
