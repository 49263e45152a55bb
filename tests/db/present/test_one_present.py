"""All surfaces say the same of a path, at every moment, whatever faults, late data and restarts there are, and however
many paths."""

from __future__ import annotations

import html
import re
from collections import Counter
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.titles import title_of
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.incidents.own_present import load_present, over_since, own_present
from monitor.alerts.models import Incident, IncidentChange
from monitor.alerts.notify.incident_text import subject
from monitor.api.prometheus import views
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Path
from monitor.overview.wide import losses
from monitor.overview.wide.places import load_places
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.models import PathTrack
from monitor.present.track import Signal
from monitor.web.pages.status import view as status_view
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import DELIVERED, SITES, Planted, at, between, plant, site

pytestmark = pytest.mark.django_db
LOOKS_S = range(-120, 840, 60)
NUMBERS = (
    "with_problems",
    "back_to_normal",
    "being_checked",
    "not_permitted",
    "in_maintenance",
    "in_own_tests",
    "overdue",
    "without_data",
    "awaited",
    "normal",
)


@pytest.fixture(autouse=True)
def moment(monkeypatch, settings, tmp_path):
    """The time of all surfaces."""
    settings.REDIS_URL = f"redis+socket://{tmp_path / 'nothing.sock'}"
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    clock = {"now": at(0.0)}
    monkeypatch.setattr(timezone, "now", lambda: clock["now"])
    monkeypatch.setattr(views, "MOST_SERIES", 10_000)
    return clock


def random_faults(rng):
    """One to three faults: losses, outages, longer RTTs, of a site or a pair, some that flap."""
    for _ in range(rng.integers(1, 4)):
        names = rng.permutation(SITES).tolist()
        hits = site(names[0]) if rng.random() < 0.3 else between(*names[:2])
        begin_s, lasts_s = float(rng.uniform(0, 240)), float(rng.uniform(60, 400))
        kind = rng.integers(4)
        if kind == 3:
            yield from (Planted(hits, begin_s + 40.0 * number, 20.0, lost_ratio=1.0) for number in range(5))
        else:
            loss = (1.0, float(rng.choice([0.03, 0.1, 0.4])), 0.0)[kind]
            yield Planted(hits, begin_s, lasts_s, lost_ratio=loss, delay_ms=60.0 * (kind == 2))


def get(address):
    answer = Client(HTTP_HOST="localhost").get(address)
    assert answer.status_code == 200, answer.content[:500]
    return answer


def gauge():
    """The condition of each path as Prometheus has it."""
    text = get("/metrics/paths").content.decode()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    return {int(of.labels["path"]): Condition(int(of.value)) for of in families["soundings_path_condition"]}


def in_sql():
    """The condition of each path as Grafana has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT path_id, condition FROM reporting.path_condition")
        return {path_id: Condition[name.upper()] for path_id, name in cursor.fetchall()}


def folded(present, incidents):
    """The numbers of GET state, by the conditions of paths and the open incidents alone."""
    lasting = {row.path_id for of in incidents if of.over_since is None for row in of.paths.all() if not row.is_over}
    over = {row.path_id for of in incidents for row in of.paths.all() if not row.is_over} - lasting
    numbers = Counter()
    for path_id, path in present.items():
        condition = path.condition
        if path_id in lasting and condition > Condition.AWAITED:
            numbers["with_problems"] += 1
        elif path_id in lasting | over and not condition.is_trouble:
            numbers["back_to_normal"] += 1
        elif condition.is_trouble:
            numbers["being_checked"] += 1
        else:
            numbers[
                condition.name.lower().replace("own_tests", "in_own_tests").replace("set_aside", "in_maintenance")
            ] += 1
    return numbers


def check_places(present, now):
    """Each pair of places has the worst condition of its paths, and the list has those in trouble first."""
    places = load_places(more_than=0)
    of_path = {
        key: tuple(places.number_of[site] for site in of)
        for key, *of in Path.objects.values_list("pk", "source__site", "destination__site")
    }
    shown = losses.load_place_grid(places, None, now)
    assert sum(cell.paths for cell in shown.cells.values()) == len(of_path)
    for pair, cell in shown.cells.items():
        conditions = [path.condition for key, path in present.items() if of_path[key] == pair]
        bad = [condition for condition in conditions if condition.is_trouble]
        assert (cell.bad, cell.worst.condition if bad else None) == (len(bad), max(bad, default=None))

    listed = losses.load_path_list(places, losses.PathChoice(only_bad=True), None, now, limit=100, offset=0)
    bad = {key for key, path in present.items() if path.condition.is_trouble}
    assert bad <= {path.path_id for path in listed.grid.figures}
    assert listed.total <= len(bad) + sum(path.incident_id is not None for path in listed.grid.figures)


def check(now):
    present, incidents = read.load(), queries.open_incidents()
    conditions = {path_id: path.condition for path_id, path in present.items()}
    assert gauge() == in_sql() == conditions

    check_places(present, now)
    state, numbers = get("/api/v1/state").json(), folded(present, incidents)
    late = numbers["overdue"]
    same = "with_problems", "back_to_normal", "being_checked", "in_own_tests", "awaited", "normal"
    assert {name: state[name] for name in same} == {name: numbers[name] for name in same}
    assert state["overdue"] + state["without_data"] == late
    assert sum(state[name] for name in NUMBERS) == state["paths"] == len(present)
    assert set(state["open_incidents"]) == {incident.pk for incident in incidents}

    status_view.forget()
    page = re.sub(r"\s+", " ", get("/status/").content.decode())
    bad = state["with_problems"]
    if incidents and bad:
        assert re.search(rf"\b{bad} of {len(present)} paths ha(s a problem|ve problems)", page)
        assert re.match(rf"{bad} of {len(present)} paths ha(s a problem|ve problems): ", state["sentence"])
    if not incidents and state["being_checked"]:
        assert f"{state['being_checked']} of {len(present):,} paths" in page
        assert state["sentence"].startswith(f"{state['being_checked']} of {len(present):,} paths")
    if state["normal"] == len(present) and not incidents:
        assert f"All {len(present):,} paths are normal." in page
        assert state["sentence"].startswith(f"All {len(present):,} paths are normal.")

    titles = {row["id"]: row["title"] for row in get("/api/v1/incidents").json()}
    paths = load_present(incidents)
    for incident in incidents:
        own = own_present(incident, paths)
        assert incident.title == title_of(incident, own, now) == titles[incident.pk]
        assert incident.over_since == over_since(own)
        assert incident.title in subject(incident, IncidentChange.OPENED)
    lasting = [incident for incident in incidents if incident.over_since is None]
    if lasting and bad:
        assert any(incident.title in state["sentence"] for incident in lasting)


@pytest.mark.parametrize("seed", range(6))
def test_all_surfaces_say_the_same(seed, moment):
    rng = np.random.default_rng(seed)
    _, rows = plant(list(random_faults(rng)), 840, seed)
    late = rng.random(len(rows)) < 0.02  # delivered five minutes late
    delivered = sorted(
        (row.measured_at + DELIVERED + timedelta(minutes=5) * bool(is_late), number)
        for number, (row, is_late) in enumerate(zip(rows, late.tolist(), strict=True))
    )
    follower, taken = Follower(), 0
    seen = set()
    for look_s in LOOKS_S:
        now = moment["now"] = at(look_s)
        arrived = [number for when, number in delivered[taken:] if when < now]
        taken += len(arrived)
        copy_rows([rows[number] for number in arrived])
        if rng.random() < 0.3:
            follower = Follower()  # another process
        evaluate(now, follower=follower)
        check(now)
        seen |= {path.condition for path in read.load().values()}

    assert len(seen) > 1
    assert Incident.objects.exists() or Condition.SUSPECT in seen or Condition.FLAPS in seen


@pytest.mark.parametrize("sites", [2, 8, 46])
def test_the_same_tracks_say_the_same_in_any_mesh(sites, moment):
    """A loss of one path, beside up to 2,069 that are normal."""
    now = moment["now"]
    paths = list(make_mesh([f"s{number:02}" for number in range(sites)], now - timedelta(days=1), loss={}).values())
    clean = [[0, now.timestamp() - 3600.0, None, now.timestamp() - 3600.0, 3000, 0, 1.0]]
    lossy = [*clean, [1, now.timestamp() - 120.0, now.timestamp() - 125.0, now.timestamp() - 115.0, 1000, 30, 1.0]]
    PathTrack.objects.bulk_create(
        PathTrack(
            path=path, signal=Signal.LOSS, condition=Condition.NORMAL if number else Condition.BAD, newest_at=now,
            segments=clean if number else lossy,
        )
        for number, path in enumerate(paths)
    )  # fmt: skip
    freshness.note(RecurringWork.EVALUATION, now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as autovacuum does soon after a mesh was applied
    check(now)

    sentence = get("/api/v1/state").json()["sentence"]
    assert sentence.startswith(f"1 of {len(paths):,} paths is being checked: s00 ↔ s01 loses 3% since ")
    Burst.objects.create(
        path_id=paths[0].pk, measured_at=now - timedelta(seconds=20), packet_bytes=100, outcome="measured", sent=10,
        received=10, duplicates=0, reordered=0, during_test=False, rtts_ms=[20.0] * 10,
    )  # fmt: skip
    said = [html.unescape(get(address).content.decode()) for address in ("/?order=site", "/", "/paths/", "/map/")]
    clause = re.search(r"loses 3% since [0-9:]+ UTC", sentence)[0]
    assert [clause in page for page in said] == [True] * 4
