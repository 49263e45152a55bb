"""What an incident says is of now: planted losses, an outage and their ends, evaluated every 20 s."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import beta

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.words import brief, headline
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.incidents.finding_level import level_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.mesh_state import load_mesh_state
from monitor.overview.path_figures import FigureState
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import claimed, lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
CYCLE_S = 10
WINDOW_S = 120


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def paths():
    rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
    paths = make_mesh(["slac", "cern", "niit"], at(-7200), **rules)
    MeshTest.objects.update(every_s=CYCLE_S)
    MeasurementPeriod.objects.update(every_s=CYCLE_S)
    for path in paths.values():
        plant(path, -1200, 0, lambda _: 0)
    return paths


def plant(path, since_s, until_s, lost_of, rtt_ms=20.0):
    """Cycles of 10 s with ten packets of each of two sizes; `lost_of(seconds)` are lost of each burst."""
    copy_rows(
        Burst(
            path_id=path.pk, packet_bytes=size, measured_at=at(seconds), outcome="measured", sent=10,
            received=10 - (lost := lost_of(seconds)), duplicates=0, reordered=0, during_test=False,
            rtts_ms=[None] * lost + [rtt_ms] * (10 - lost),
        )
        for seconds in range(since_s, until_s, CYCLE_S)
        for size in (100, 1000)
    )  # fmt: skip


def level_now(path, rule="loss"):
    row = IncidentPath.objects.filter(path=path, rule=rule, is_over=False).first()
    return None if row is None else level_of(row)


def interval_99(lost, sent):
    """Clopper and Pearson 1934."""
    low = beta.ppf(0.005, lost, sent - lost + 1) if lost else 0.0
    return low, beta.ppf(0.995, lost + 1, sent - lost) if lost < sent else 1.0


def test_after_an_outage_nothing_is_said_to_be_unreachable(paths):
    dead = [path for name, path in paths.items() if "cern" in name]
    for path in paths.values():
        plant(path, 0, 400, lambda seconds, lost=10 if path in dead else 0: lost if seconds < 300 else 0)
    for seconds in range(20, 301, 20):
        evaluate(at(seconds))
    (during,) = queries.open_incidents()
    assert "unreachable" in headline(during)
    unreachable = IncidentPath.objects.filter(rule="unreachable")
    assert unreachable.filter(is_over=False).count() == len(dead)
    assert {row.rule for row in IncidentPath.objects.filter(is_over=False)} == {"loss", "unreachable"}

    for seconds in (320, 340):
        evaluate(at(seconds))

    (after,) = queries.open_incidents()
    assert set(unreachable.values_list("is_over", flat=True)) == {True}
    assert {row.ended_at for row in unreachable} <= {at(320), at(340)}
    assert IncidentPath.objects.filter(rule="loss", is_over=False).count() == len(dead)
    for text in (headline(after), brief(after, at(340))):
        assert "unreachable" not in text
        assert lacks(text, "10:05:00 UTC", "no loss") == []
    figures = load_grid(Metric.LOSS, GridPeriod.NOW, at(345)).figures
    assert [path.path_id for path in figures if path.state is FigureState.TOTAL_LOSS] == []
    assert {path.value for path in figures} == {0.0}


def test_a_path_that_fails_again_joins_its_open_incident_again(paths):
    path, other = paths["slac → cern"], paths["cern → slac"]
    plant(path, 0, 700, lambda seconds: 10 if not 300 <= seconds < 400 else 0)
    plant(other, 0, 700, lambda _: 10)
    for seconds in (200, 220, 300, 340, 600):
        evaluate(at(seconds))
        if seconds == 340:
            assert set(IncidentPath.objects.filter(rule="unreachable", is_over=False).values_list("path_id")) == {
                (other.pk,)
            }

    (incident,) = Incident.objects.all()
    assert incident.paths.filter(rule="unreachable", is_over=False).count() == 2
    assert incident.summary.count("slac → cern: 100% loss") == 1


def test_a_steady_loss_is_shown_as_it_is_from_its_detection_on(paths):
    path = paths["slac → cern"]
    plant(path, 0, 500, lambda seconds: 1 if seconds < 400 else 0)
    shown = {}
    for seconds in range(20, 461, 20):
        evaluate(at(seconds))
        shown[seconds] = level_now(path)

    during = [level for seconds, level in shown.items() if level is not None and seconds <= 400]
    assert len(during) >= 10
    assert {round(level.now, 9) for level in during} == {0.1}
    assert max(level.window_s for level in during) <= WINDOW_S + CYCLE_S
    assert (shown[440].now, shown[440].has_changed) == (0.0, True)
    assert shown[440].window_s == pytest.approx(440 - 390, abs=0.01), (
        "the first packet of the burst at 390 s is the last lost"
    )
    (incident,) = queries.open_incidents()
    for text, peak in ((headline(incident), "peak "), (brief(incident, at(460)), "peak ")):
        bound, worst = re.search(rf"no loss since 10:06:30 UTC \((below [^)]*)\).*, {peak}([^%]*%)", text).groups()
        assert claimed(bound)[1] == pytest.approx(1.0 - 0.02 ** (1.0 / 120), abs=0.001)
        low, high = claimed(worst)
        assert low < 0.1 < high < 0.15


def _detected_at_10_then_40_percent(seconds):
    return 1 if seconds < 120 else 4 if seconds < 300 else 0


def test_a_path_that_loses_nothing_has_no_problems(paths):
    """Few clean packets do not prove the end of a loss: until then it goes on, with its newest figures."""
    lossy = paths["slac → cern"]
    for path in paths.values():
        plant(path, 0, 500, lambda _: 0) if path != lossy else plant(path, 0, 500, _detected_at_10_then_40_percent)
    sentences = []
    for seconds in range(20, 481, 20):
        evaluate(at(seconds))
        sentences.append(load_mesh_state(freshness.load(), at(seconds)).sentence)

    ended = [sentence for sentence in sentences if "no loss since" in sentence]
    assert "1 of 6 paths has problems: cern ↔ slac loss " in sentences[14]
    assert all("no loss since 10:04:53 UTC" in sentence for sentence in sentences[15:20]), "\n".join(sentences)
    assert [sentence for sentence in ended if "has problems" in sentence or "have problems" in sentence] == []


def test_the_time_of_a_level_covers_exactly_its_packets(paths):
    """By the archive's own bursts, while the loss rises, falls and ends; whenever the text is read."""
    path = paths["slac → cern"]
    plant(path, 0, 900, lambda seconds: 1 if seconds < 300 else 4 if seconds < 600 else seconds % 40 // 30)
    counted = 0
    for seconds in range(100, 900, 20):
        evaluate(at(seconds))
        level = level_now(path)
        if level is None or level.now is None:
            continue
        bursts = Burst.objects.filter(path_id=path.pk, measured_at__gte=level.since, measured_at__lt=at(seconds))
        sent, received = (sum(bursts.values_list(name, flat=True)) for name in ("sent", "received"))
        assert (level.sent, level.lost) == (sent, sent - received), seconds
        assert level.when_text in ("now", f"since {level.since:%H:%M:%S} UTC")
        counted += 1
    assert counted > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_the_shown_loss_agrees_with_the_planted_of_its_window(paths, seed, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    rng, path = np.random.default_rng(seed), paths["slac → cern"]

    def planted(seconds):
        return 0.0 if seconds < 0 else 0.1 if seconds < 300 else 0.4 if seconds < 500 else 0.05

    plant(path, 0, 700, lambda seconds: int(rng.binomial(10, planted(seconds))))
    agrees = []
    for seconds in range(60, 701, 20):
        evaluate(at(seconds))
        level = level_now(path)
        if level is None:
            continue
        assert level.window_s <= WINDOW_S or level.lost <= 30 * level.together
        began_s = round(seconds - level.window_s)
        truth = np.mean([planted(moment) for moment in range(began_s, seconds, CYCLE_S)])
        low, high = interval_99(level.lost, level.sent)
        agrees.append(low <= truth <= high)
        if 340 <= seconds <= 500:
            assert level.now > 0.25, seconds
        if seconds >= 540:
            assert level.now < 0.2, seconds

    assert len(agrees) >= 25
    assert np.mean(agrees) >= 0.95


def test_the_shown_rtt_is_of_the_newest_bursts_since_its_step(paths):
    path = paths["slac → cern"]
    for since_s, until_s, rtt_ms in ((0, 400, 80.0), (400, 480, 20.0)):
        plant(path, since_s, until_s, lambda _: 0, rtt_ms)
    levels = {}
    for seconds in range(-20, 461, 20):
        evaluate(at(seconds))
        levels[seconds] = level_now(path, "rtt")

    during = {level.now for seconds, level in levels.items() if level is not None and seconds <= 400}
    assert during == {80.0}
    assert levels[440] is None or levels[440].now == 20.0


def test_the_rtt_at_the_end_is_that_of_the_bursts_since(paths):
    path = paths["slac → cern"]
    for since_s, until_s, rtt_ms in ((0, 400, 80.0), (400, 600, 20.0)):
        plant(path, since_s, until_s, lambda _: 0, rtt_ms)
    for seconds in range(-20, 601, 10):
        evaluate(at(seconds))

    (row,) = IncidentPath.objects.filter(rule="rtt")
    assert row.is_over
    assert lacks(Incident.objects.get().closing, "slac → cern: RTT 20.00 ms again") == []


LOSS_NOW = re.compile(r"loss ([^%]*%) (?:now|in the last)")


def titles_while_lost(paths, ratio_of, until_s, seed):
    """The titles of the incident of cern's four paths, with the loss `ratio_of(name, seconds)` planted."""
    rng = np.random.default_rng(seed)
    for name, path in paths.items():
        plant(path, 0, until_s, lambda s, name=name: int(rng.binomial(10, ratio_of(name, s))))
    titles = []
    for seconds in range(30, until_s, 60):
        evaluate(at(seconds))
        gather.gather_due(at(seconds))
        titles += [headline(incident) for incident in queries.open_incidents()[:1]]
    return titles


@pytest.mark.parametrize(("planted", "seed"), [(0.05, 1), (0.2, 2)])
def test_a_title_says_the_planted_loss_of_several_paths(paths, planted, seed, monkeypatch):
    """Four paths lose as much for twenty minutes, then two of them nothing more."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)

    def ratio_of(name, seconds):
        return planted if "cern" in name and (seconds < 1200 or "niit" not in name) else 0.0

    titles = titles_while_lost(paths, ratio_of, 1500, seed)
    shown = [claimed(match[1]) for title in titles if (match := LOSS_NOW.search(title))]

    assert len(shown) >= 15
    assert sum(not low <= planted <= high for low, high in shown) <= len(shown) / 20
    assert all(high - low <= planted for low, high in shown[2:])
    assert [title for title in titles if re.search(r"peak \d", title)] == []
    assert "4 paths (over on 2)" in titles[-1]


def test_a_title_names_a_path_that_is_worse_than_the_others(paths, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)

    def ratio_of(name, _):
        return 0.0 if "cern" not in name else 0.5 if name == "slac → cern" else 0.05

    (*_, title) = titles_while_lost(paths, ratio_of, 500, 7)

    low, high = claimed(re.search(r"loss ([^%]*%)", title)[1])
    worse_low, worse_high = claimed(re.search(r"\(([^%]*%) on slac → cern\)", title)[1])
    assert low < (0.5 + 3 * 0.05) / 4 < high
    assert worse_low < 0.5 < worse_high


@pytest.mark.parametrize("seed", [1, 2])
def test_the_present_loss_rises_only_with_lost_packets(paths, seed, monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    rng, path = np.random.default_rng(seed), paths["slac → cern"]
    plant(path, 0, 900, lambda s: int(rng.binomial(10, 0.1 if s < 300 else 0.0)))
    levels = []
    for seconds in range(60, 560, 20):
        evaluate(at(seconds))
        level = level_now(path)
        levels += [level] if level is not None else []
        if seconds > 320 and len(levels) > 1 and level is not None:
            assert levels[-1].now <= levels[-2].now

    begins = [level.began_at for level in levels]
    assert len(levels) > 10
    assert begins == sorted(begins)
    assert levels[-1].now == 0.0
