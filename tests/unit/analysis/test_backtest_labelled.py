"""Labelled series through the live rules: synthetic traces with known changes, no dataset and no database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from monitor.alerts.backtest import labelled
from monitor.analysis.changes import detector, scoring
from monitor.analysis.changes.labelled import read
from tests.facts import lacks

BEGAN = datetime(2026, 1, 7, 9, 0, tzinfo=UTC)
CHANGES = (120, 240, 330)
LEVELS_MS = (80.0, 100.0, 97.0, 112.0)


def write_trace(file, seed, lost=(), samples=400):
    """Four levels with a change marked at each of CHANGES; a sample every four minutes."""
    random = np.random.default_rng(seed)
    level = np.repeat(LEVELS_MS, np.diff([0, *CHANGES, 400]))[:samples]
    rtts_ms = level + random.exponential(0.3, samples)
    rtts_ms[list(lost)] = -1
    lines = [
        f"{BEGAN + timedelta(minutes=4 * number):%Y-%m-%d %H:%M:%S};{rtt:.4f};{int(number in CHANGES)}"
        for number, rtt in enumerate(rtts_ms)
    ]
    file.write_text("\n".join(["epoch;rtt;cp", *lines]))


@pytest.fixture
def folder(tmp_path):
    write_trace(tmp_path / "1.csv", 1)
    write_trace(tmp_path / "2.csv", 2, lost=(5, 124, 300))
    return tmp_path


def backtest(*arguments):
    out = StringIO()
    call_command("alerts", "backtest", *arguments, stdout=out)
    return out.getvalue()


def test_every_planted_change_is_detected_and_only_rises_alarm(folder):
    figures = json.loads(backtest("--dataset", str(folder), "--json"))

    assert (figures["traces"], figures["samples"], figures["marked_changes"]) == (2, 800, 6)
    assert (figures["changes"]["precision"], figures["changes"]["recall"]) == (1.0, 1.0)
    assert figures["changes"]["median_delay_samples"] == detector.AFTER - 1
    assert figures["quiet"]["alarms"] == 0
    (rule,) = figures["rules"]
    assert (rule["rule"], rule["fired"]) == ("rtt", 2), "80 to 100 ms on both; it lasts a day, the second rise is in it"


def test_the_evaluation_interval_does_not_matter(folder):
    traces = labelled.load(folder)

    often, seldom = (labelled.replay(traces, {}, every_s=every_s).changes for every_s in (240.0, 20_000.0))

    assert often == seldom


def test_the_changes_are_those_of_the_detector_on_the_series(folder):
    """The live rules and the pure function detect the same changes."""
    traces = labelled.load(folder)
    outcome = labelled.replay(traces, {})

    for trace in traces:
        series = read((folder / f"{trace.name}.csv").read_text().split("\n"))
        detected = detector.changes(series.rtts_ms)
        at = [trace.at_s[change.at] for change in detected]
        assert [change.at_s for change in outcome.changes if change.path_id == trace.path.path_id] == at
    assert outcome.score.matched == len(CHANGES) * len(traces)


def test_distant_changes_are_false_and_missed_marks_are_counted(folder):
    file = folder / "2.csv"
    head, *lines = file.read_text().split("\n")
    marked_elsewhere = [head, *(f"{line[:-1]}0" for line in lines)]
    marked_elsewhere[60] = marked_elsewhere[60][:-1] + "1"
    file.write_text("\n".join(marked_elsewhere))

    outcome = labelled.replay(labelled.load(folder), {})

    assert (outcome.score.matched, outcome.score.false, outcome.score.missed) == (3, 3, 1)
    assert outcome.quiet().alarms == 2
    quiet = sum(scoring.quiet(trace.series.changed_at, 400).sum() for trace in outcome.traces)
    assert outcome.quiet().quiet_s == quiet * 240


def test_a_series_that_ends_within_an_incident_leaves_the_others_to_go_on(folder):
    write_trace(folder / "1.csv", 1, samples=200)

    outcome = labelled.replay(labelled.load(folder), {})

    assert (outcome.score.matched, outcome.score.missed) == (4, 0), "the short series has one of three changes"


def test_no_sample_is_lost_when_the_clock_is_set_back(folder):
    lines = (folder / "1.csv").read_text().split("\n")
    back = [line.replace("2026-01-07 1", "2026-01-07 0") if place > 40 else line for place, line in enumerate(lines)]
    (folder / "1.csv").write_text("\n".join(back))

    trace = labelled.load(folder)[0]

    assert (np.diff(trace.at_s) > 0).all()
    assert len(trace.at_s) == 400


def test_the_printed_table_has_the_scores(folder):
    output = backtest("--dataset", str(folder))

    head = output.splitlines()[0]
    assert head.startswith("2 series")
    assert lacks(head, " 800 samples", " 6 marked changes", " 0.3 path-weeks") == []
    assert "F1" in output
    assert "1.000" in output
    assert "13 samples" in output


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("epoch;rtt;cp\n2026-01-01 00:00:00;1;0\n2026-01-01 00:04:00;x;0\n", ["1.csv: line 3: "]),
        ("time,rtt\n", ["1.csv: line 1: ", '"time,rtt"', "not", '"epoch;rtt;cp"']),
        ("epoch;rtt;cp\n2026-01-01 00:00:00;1;0\n", ["1.csv: ", " 1 samples", " 2 at least"]),
    ],
)
def test_a_file_in_another_format_is_reported_with_its_line(tmp_path, content, facts):
    (tmp_path / "1.csv").write_text(content)

    with pytest.raises(CommandError) as error:
        backtest("--dataset", str(tmp_path))

    assert lacks(str(error.value), *facts) == []


def test_a_binary_file_is_reported(tmp_path):
    (tmp_path / "1.csv").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(CommandError, match=r"1\.csv: is not UTF-8 text"):
        backtest("--dataset", str(tmp_path))


def test_a_folder_without_series_says_where_to_get_them(tmp_path):
    (tmp_path / "real").mkdir()
    write_trace(tmp_path / "real" / "1.csv", 1)

    with pytest.raises(CommandError, match=r"no \.csv file.* in real\b"):
        backtest("--dataset", str(tmp_path))
    with pytest.raises(CommandError, match="nothing: no such folder"):
        backtest("--dataset", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule", "los", "--dataset", "x"], 'no rule "los".*did you mean "loss"\\?.*write unreach'),
        (["--dataset", "x", "--from", "2026-01-01"], "cannot be combined"),
        (["--from", "2026-01-01"], r"give --from and --to\b.*--dataset DIR"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "is not after --from"),
        (["--from", "yesterday", "--to", "2026-01-01"], '"yesterday" is not a time'),
        (["--dataset", "x", "--every-s", "0"], r"seconds.* 1 to 43200\b"),
    ],
)
def test_invalid_options_are_reported(arguments, message):
    with pytest.raises(CommandError, match=message) as error:
        backtest(*arguments)

    assert error.value.returncode in (1, 2)
