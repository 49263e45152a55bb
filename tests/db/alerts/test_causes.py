"""The stated cause of a planted fault, end to end: delivered as by agents, evaluated as by the worker.

A fault of each of several kinds; `python -m tests.scored causes` plants all kinds several times.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.alerts.evidence.stated import Fault, LikelyCause
from tests.causes.faults import MAKERS, planted
from tests.causes.runs import prepare, run
from tests.causes.scoring import Mark, score

pytestmark = pytest.mark.django_db
QUICK = ("loss in one direction", "delay step both ways, agent under load", "agent starved of CPU", "agent dead")


def test_the_causes_of_quick_faults_are_stated_correctly():
    mesh = prepare(history_min=60)

    faults = list(planted(1, QUICK))
    stated = [run(mesh, fault, step_min=4) for fault in faults]
    scores = [score(*planted_and_stated) for planted_and_stated in zip(faults, stated, strict=True)]

    assert {score.fault.kind for score in scores} == set(QUICK) <= MAKERS.keys()
    assert [(score.fault.kind, score.sentences) for score in scores if score.mark is not Mark.RIGHT] == []
    assert [(score.fault.kind, score.wrong_before) for score in scores if score.wrong_before] == []
    assert [score.fault.kind for score in scores if not (score.has_right_paths and score.has_direction)] == []
    one_way, (*_, at_end) = faults[0], stated[0]
    for cause in (LikelyCause(Fault.AGENT, "the agent"), turned(at_end[0].evidence.cause)):
        assert score(one_way, [[with_cause(at_end[0], cause)], at_end]).wrong_before


def turned(cause):
    """In the opposite direction."""
    return replace(cause, toward=cause.toward[::-1])


def with_cause(incident, cause):
    return replace(incident, evidence=replace(incident.evidence, cause=cause))
