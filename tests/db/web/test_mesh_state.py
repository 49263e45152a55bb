"""The sentence on the whole mesh, on pages and in the API, on planted measurements judged by the rules themselves."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import numpy as np
import pytest
from django.utils import timezone

from monitor.alerts.detect import rtt_progress
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import over_words
from monitor.alerts.incidents import actions, lifecycle
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.mesh.models import Group, Measurement, MeasurementPeriod, Mesh, Path, Site, Test
from monitor.web.pages.status import view as status_view
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.incident_rows import HOUR, MINUTE, NOW, RULE, lossy, watched
from tests.db.pages_mesh import throughput
from tests.facts import lacks

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)
LOCAL = {"host": "localhost"}
PAGES = ["/", "/map/", "/incidents/", "/sites/"]
STATES = (
    "with_problems", "back_to_normal", "in_maintenance", "normal", "being_checked", "in_own_tests", "overdue",
    "awaited", "without_data", "not_permitted",
)  # fmt: skip


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
        assert sum(got[name] for name in STATES) == got["paths"]
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


def test_an_open_incident_is_named_with_figure_and_onset(state, paths):
    clean(*(path for name, path in paths.items() if name not in ("slac → cern", "cern → slac")))
    incident = lossy(paths["slac → cern"])

    got = state()

    # 2 of 10 packets are lost; the rules find it in the pings of one end only, which does not tell the direction.
    assert lacks(got["sentence"], "1 of 6 paths has a problem: cern ↔ slac", "20% since 12:2", "5 normal") == []
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

    assert lacks(got["sentence"], "2 of 2 paths have problems", "ornl ↔ slac", "124 ms since 12:1", "64.1 ms") == []
    assert (got["with_problems"], got["normal"]) == (2, 0)


def test_problems_that_are_over_are_counted_after_the_others(state, clock):
    paths = make_mesh(["slac", "ornl", "fnal", "anl"], NOW - 60 * 24 * HOUR, rtt={})
    back, lasting = [paths["slac → ornl"], paths["ornl → slac"]], [paths["fnal → anl"], paths["anl → fnal"]]
    slower(back, 124.0, [64.0] * 4)
    slower(lasting, 90.0, [90.0] * 4)
    clean(*(path for path in paths.values() if path not in back + lasting))
    judged()
    assert Incident.objects.count() == 2
    clock.now = NOW + 4 * MINUTE
    judged(clock.now)

    got = state()

    title = "2 of 12 paths have problems: anl ↔ fnal", "90.1 ms since 12:1"
    assert lacks(got["sentence"], *title, "2 over, waiting to close") == []
    assert (got["with_problems"], got["back_to_normal"]) == (2, 2)


def test_incidents_that_only_wait_to_close_are_no_problems(state, clock):
    paths = make_mesh(["slac", "ornl"], NOW - 60 * 24 * HOUR, rtt={})
    slower(paths.values(), 124.0, [64.0] * 4)
    judged()
    clock.now = NOW + 4 * MINUTE
    judged(clock.now)

    facts = "No path has a problem now", "ornl ↔ slac", "64.1 ms", "since 12:3", "124 ms from 12:1", "2 over"
    assert lacks(state()["sentence"], *facts) == []


def drawn(client, address, tag="li"):
    """The text of these elements of a page, and their styles."""
    html = unescape(client.get(address, headers=LOCAL).content.decode())
    found = re.findall(rf'<{tag}\b(?: class="([^"]*)")?[^>]*>(.*?)</{tag}>', html, re.DOTALL)
    return {" ".join(re.sub("<[^>]*>", "", text).split()): style for style, text in found}


def style_of(client, address, words, tag="li"):
    return next(style for text, style in drawn(client, address, tag).items() if words in text)


@pytest.mark.parametrize("goes_on", [False, True])
def test_incidents_that_are_over_are_drawn_calm_and_counted_apart(client, clock, goes_on):
    """The RTT of slac ↔ ornl is as before again; that of fnal ↔ anl stays longer."""
    paths = make_mesh(["slac", "ornl", "fnal", "anl"], NOW - 60 * 24 * HOUR, rtt={})
    back, lasting = [paths["slac → ornl"], paths["ornl → slac"]], [paths["fnal → anl"], paths["anl → fnal"]]
    slower(back, 124.0, [64.0] * 4)
    if goes_on:
        slower(lasting, 90.0, [90.0] * 4)
    else:
        clean(*lasting, until=NOW + 4 * MINUTE)
    clean(*(path for path in paths.values() if path not in back + lasting), until=NOW + 4 * MINUTE)
    judged()
    clock.now = NOW + 4 * MINUTE
    judged(clock.now)
    status_view.forget()

    red, mark = ("count-incident", "trouble") if goes_on else ("", "calm")
    on_list = "2 unacknowledged, 1 of them over" if goes_on else "1 unacknowledged, over"
    assert style_of(client, "/incidents/", on_list) == red
    on_status = "2 open incidents, 1 of them over" if goes_on else "1 open incident, over: no"
    assert style_of(client, "/status/", on_status, "section") == f"mesh-state {mark}"
    assert style_of(client, "/status/", "over since") == "open over"
    for address in ("/", "/incidents/"):
        assert style_of(client, address, "over, waiting to close warning").startswith("open over")
        styles = [style for style in drawn(client, address).values() if style.startswith("open")]
        assert sum("over" not in style for style in styles) == goes_on
    assert style_of(client, f"/paths/{back[0].pk}/", "over, waiting to close", "p").startswith("alarm open over")


@pytest.mark.parametrize(
    ("number", "over", "words"),
    [(3, 0, ""), (3, 1, ", 1 of them over"), (1, 1, ", over"), (2, 2, ", both over"), (3, 3, ", all over")],
)
def test_the_number_of_incidents_that_are_over_is_told_in_short(number, over, words):
    assert over_words(number, over) == words


def test_a_loss_that_is_being_proven_is_not_called_normal_meanwhile(state, clock, paths):
    """2% on a path, whose rule takes ten minutes and longer to prove it."""
    random, lossy_path = np.random.default_rng(4), paths["slac → cern"]
    Test.objects.update(every_s=10)
    for path in paths.values():
        make_bursts(path, [0] * 360, NOW - 100 * MINUTE, every_s=10)
        lost = random.binomial(10, 0.02, 240).tolist() if path == lossy_path else [0] * 240
        make_bursts(path, [*lost, *[0] * 120], NOW - 40 * MINUTE, every_s=10)
    troubled = []
    for minute in range(-35, 1):
        clock.now = NOW + minute * MINUTE
        evaluate(clock.now)
        got = state()
        troubled.append(got["with_problems"] + got["being_checked"])

    assert sum(troubled) >= 0.8 * len(troubled), troubled
    assert set(troubled) <= {0, 1}

    # Once as long a time without a loss proves that it is over, the path has no problem.
    clock.now = NOW + 15 * MINUTE
    evaluate(clock.now)
    got = state()
    assert got["normal"] + got["back_to_normal"] == 6, got


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
    assert lacks(got["sentence"], "3 of 12 paths", "cern ↔ slac", "80%", "1 other incident", "9 normal") == []


def test_an_incident_that_goes_on_is_named_before_those_over(state):
    """The loss of 80% is graver than the RTT, and over since four minutes."""
    rules = {"loss": {"above_ratio": 0.01, "window_s": 600}, "rtt": {}}
    paths = make_mesh(["slac", "cern", "fnal", "anl"], NOW - 60 * 24 * HOUR, **rules)
    slow = [paths["fnal → anl"], paths["anl → fnal"]]
    slower(slow)
    for name, path in paths.items():
        if path not in slow:
            lost = 8 if name == "slac → cern" else 0
            make_bursts(path, [0] * 116 + [lost] * 10 + [0] * 4, NOW - 130 * MINUTE)
    judged(NOW - 4 * MINUTE)
    judged()

    got = state()["sentence"]

    facts = "2 of 12 paths have problems: anl ↔ fnal", "1 over, waiting to close", "9 normal"
    assert lacks(got, *facts) == []


def test_a_dead_path_without_an_incident_is_not_called_normal(state, paths):
    """Before the rules have proof."""
    Test.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    for name, path in paths.items():
        lost = [10, 10, 10] if name == "slac → cern" else [0] * 3
        make_bursts(path, [0] * 60 + lost, NOW - 630 * SECOND, every_s=10)
    evaluate(NOW)

    got = state()

    facts = "1 of 6 paths is being checked: cern ↔ slac dead since 12:29:29 UTC", "5 normal"
    assert lacks(got["sentence"], *facts) == []
    assert "All" not in got["sentence"]
    assert (got["normal"], got["being_checked"], got["open_incidents"]) == (5, 1, [])


def with_outage(paths, others=()):
    """A loss of 40% on these others, and nine minutes without a reply on slac → cern, which answers since 12:28."""
    for path in paths.values():
        lost = 10 if str(path) == "slac → cern" else 4 if path in others else 0
        make_bursts(path, [0] * 60 + [lost] * 9 + [lost if path in others else 0] * 2, NOW - 71 * MINUTE)
    judged(NOW - 2 * MINUTE)
    judged()


def test_a_path_that_replies_again_without_loss_is_no_problem(state, paths):
    with_outage(paths)

    got = state()

    facts = "No path has a problem now", "cern ↔ slac answers again since 12:28:00 UTC; dead from 12:18:09", "5 normal"
    assert lacks(got["sentence"], *facts) == []
    assert (got["with_problems"], got["back_to_normal"]) == (0, 1)


def test_a_path_that_replies_again_is_counted_beside_problems(state):
    paths = make_mesh(["slac", "cern", "fnal", "anl"], NOW - 30 * 24 * HOUR, loss=RULE)
    with_outage(paths, [paths["fnal → anl"]])

    facts = "1 of 12 paths has a problem: anl ↔ fnal", "1 over, waiting to close", "10 normal"
    assert lacks(state()["sentence"], *facts) == []


def test_a_path_that_is_checked_is_counted_beside_problems(state, paths):
    clean(*(path for name, path in paths.items() if name not in ("slac → cern", "cern → slac", "fnal → cern")))
    make_bursts(paths["fnal → cern"], [0] * 128 + [10] * 2, NOW - 130 * MINUTE)
    lossy(paths["slac → cern"])

    got = state()

    assert lacks(got["sentence"], "1 of 6 paths has a problem: cern ↔ slac", "1 being checked", "4 normal") == []
    assert (got["normal"], got["being_checked"]) == (4, 1)


@pytest.mark.parametrize("above_ratio", [0.01, 0.2])
def test_a_loss_above_its_rule_or_its_usual_is_being_checked(state, mark, paths, above_ratio):
    """10% is above a rule of 1%, and more than usual with a rule of 20%."""
    Mesh.objects.update(alerts={"loss": {"above_ratio": above_ratio, "window_s": 600}})
    for name, path in paths.items():
        lost = [int(name == "slac → cern") for _ in range(30)]
        make_bursts(path, [0] * 90 + lost, NOW - 120 * MINUTE)
    evaluate(NOW)

    got = state()

    assert (got["being_checked"], mark()) == (1, "unknown")
    assert lacks(got["sentence"], "1 of 6 paths is being checked: cern ↔ slac loses", "5 normal") == []


def test_a_path_of_a_pending_incident_is_being_checked(state, mark):
    paths = make_mesh(["slac", "ornl", "fnal"], NOW - 60 * 24 * HOUR, rtt={})
    slow = [paths["slac → ornl"], paths["ornl → slac"]]
    slower(slow)
    clean(*(path for path in paths.values() if path not in slow))
    evaluate(NOW)
    assert Incident.objects.get().is_pending

    got = state()

    assert lacks(got["sentence"], "2 of 6 paths are being checked: ", " ↔ ", "124 ms", "4 normal") == []
    assert (got["with_problems"], got["being_checked"], mark()) == (0, 2, "unknown")


def test_paths_without_data_are_not_normal(state, paths):
    silent = [paths["slac → cern"], paths["slac → fnal"]]
    clean(*(path for path in paths.values() if path not in silent))
    clean(*silent, until=NOW - 20 * MINUTE)
    judged()

    got = state()

    assert lacks(got["sentence"], "2 of 6 paths have no newer results.", "4 normal") == []
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

    assert (got["normal"], got["not_permitted"], got["style"]) == (0, 6, "unknown")
    assert lacks(got["sentence"], "6 of 6 paths could not be measured.") == []
    assert "limits.toml" not in got["sentence"]


def test_a_slow_test_is_current_for_two_cycles(state, paths):
    Test.objects.update(every_s=1800)
    make = {path: [0] * 10 for path in paths.values()}
    for path, lost in make.items():
        make_bursts(path, lost, NOW - 59 * MINUTE, every_s=6)
    judged()
    assert state()["overdue"] + state()["without_data"] == 0

    Clock.now = NOW + 3 * MINUTE
    judged(Clock.now)
    got = state()
    assert (got["without_data"], got["without_data_s"]) == (6, 600)


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
    scopes = {
        "path": actions.QuietScope(path=paths["slac → cern"]),
        "site": actions.QuietScope(site=Site.objects.get(name="fnal")),
        "group": actions.QuietScope(group=Group.objects.get()),
        "all": actions.QuietScope(),
    }
    actions.maintain(scopes[scope], NOW - HOUR, NOW + HOUR, "new router", "ann", NOW)
    judged()

    got = state()

    # The group has slac and cern; a site's paths are those from it and to it.
    maintained = {"path": 1, "site": 4, "group": 2, "all": 6}[scope]
    assert (got["in_maintenance"], got["normal"]) == (maintained, 6 - maintained)
    assert f"{maintained} in maintenance" in got["sentence"]
    assert "All" not in got["sentence"]


def test_an_open_incident_stays_a_problem_in_maintenance(state, paths):
    lossy(paths["slac → cern"])
    actions.maintain(actions.QuietScope(), NOW - HOUR, NOW + HOUR, "new router", "ann", NOW)
    judged()

    got = state()

    assert (got["with_problems"], got["back_to_normal"], got["in_maintenance"]) == (1, 0, 5)
    assert lacks(got["sentence"], "1 of 6 paths has a problem: cern ↔ slac", "20%") == []
    assert "normal again" not in got["sentence"]


def test_rules_not_evaluated_lately_leave_the_state_unknown(state, paths):
    lossy(paths["slac → cern"])
    Clock.now = NOW + 5 * MINUTE
    clean(*paths.values(), until=Clock.now, minutes=3)

    got = state()

    assert lacks(got["sentence"], "State unknown", "2026-11-21 12:30 UTC", "1 with problems") == []
    assert "normal" not in got["sentence"]
    assert got["unknown_since"] == "2026-11-21T12:30:00Z"


def test_before_the_first_evaluation_nothing_is_normal(state, mark, paths):
    Mesh.objects.update(applied_at=NOW - MINUTE)
    clean(*paths.values())

    got = state()

    assert lacks(got["sentence"], "not been evaluated") == []
    assert "normal" not in got["sentence"]
    assert mark() == "unknown"


def test_new_paths_wait_for_enough_packets(state, paths):
    Measurement.objects.update(started_at=NOW - MINUTE)
    judged()
    assert lacks(state()["sentence"], "Too early to tell: 6 of 6 paths") == []

    clean(*[path for name, path in paths.items() if "fnal" not in name], minutes=31)
    judged()
    got = state()
    assert (got["normal"], got["awaited"]) == (2, 4)
    assert lacks(got["sentence"], "Too early to tell: 4 of 6 paths", "2 normal") == []


def test_refused_paths_do_not_wait_for_results(state, paths):
    Measurement.objects.update(started_at=NOW - 5 * MINUTE)
    judged()
    rule = "networks.private: 10.0.0.10 is in 10.0.0.0/8"
    for number, path in enumerate(paths.values(), start=1):
        Burst.objects.create(
            path_id=path.pk, packet_bytes=100, measured_at=NOW - MINUTE, outcome="not_permitted", detail=rule,
            during_test=False, sent=0, received=0, duplicates=0, reordered=0, rtts_ms=[],
        )  # fmt: skip
        judged()
        sentence = state()["sentence"]
        assert lacks(sentence, f"{number} of 6 paths", "not permitted", "limits.toml", rule) == []
        assert ("too few packets" in sentence) is (number < 6)


def test_an_incident_that_ended_lately_is_named(state, clock, paths):
    clean(*(path for path in paths.values() if str(path) != "slac → cern"), minutes=150)
    make_bursts(paths["slac → cern"], [0] * 110 + [2] * 10 + [0] * 30, NOW - 150 * MINUTE)
    judged(NOW - 30 * MINUTE)
    judged(NOW - 19 * MINUTE)

    judged(NOW - 15 * MINUTE)
    judged()
    got = state()

    (title,) = Incident.objects.values_list("title", flat=True)
    assert got["sentence"] == f"All 6 paths are normal. Last incident: {title}."
    assert lacks(title, "cern ↔ slac lost", "20%", "from", "to") == []
    clock.now = NOW + 5 * MINUTE
    clean(*paths.values(), until=clock.now, minutes=5)
    judged(clock.now)
    assert state()["sentence"] == got["sentence"]
    clock.now = NOW + 2 * HOUR
    clean(*paths.values(), until=clock.now, minutes=60)
    judged(clock.now)
    assert state()["sentence"] == "All 6 paths are normal."


def test_without_enabled_rules_nothing_is_called_normal(state, mark, paths):
    Mesh.objects.update(alerts={**Mesh.objects.get().alerts, "loss": {"enabled": False}})
    clean(*paths.values())
    judged()

    got = state()

    assert lacks(got["sentence"], "disabled") == []
    assert "normal" not in got["sentence"]
    assert mark() == "unknown"


def test_without_mesh_or_path_the_sentence_says_so(state):
    assert "no mesh" in state()["sentence"]

    make_mesh(["slac"], NOW)
    got = state()

    assert lacks(got["sentence"], "no path is measured", "two sites") == []
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
    ("names", "fact"),
    [((), "no mesh"), (("slac",), "no path is measured"), (("slac", "cern"), "not been evaluated")],
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


def test_retired_paths_are_not_counted(state, paths):
    Path.objects.filter(pk=paths["slac → cern"].pk).update(retired_at=NOW - timedelta(days=1))
    clean(*paths.values())
    judged()

    assert state()["sentence"] == "All 5 paths are normal."
