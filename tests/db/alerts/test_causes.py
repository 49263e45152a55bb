"""The stated cause of a planted fault, end to end: delivered as by agents, evaluated as by the worker.

A fault of each of several kinds; `python -m tests.causes` plants all kinds several times.
"""

from __future__ import annotations

import pytest

from tests.causes.faults import MAKERS, planted
from tests.causes.runs import prepare, run
from tests.causes.scoring import Mark, score

pytestmark = pytest.mark.django_db
QUICK = ("loss in one direction", "delay step both ways, agent under load", "agent starved of CPU", "agent dead")


def test_the_causes_of_quick_faults_are_stated_correctly():
    mesh = prepare(history_min=60)

    scores = [score(fault, run(mesh, fault, step_min=4)) for fault in planted(1, QUICK)]

    assert {score.fault.kind for score in scores} == set(QUICK) <= MAKERS.keys()
    assert [(score.fault.kind, score.sentences) for score in scores if score.mark is not Mark.RIGHT] == []
    assert [score.fault.kind for score in scores if not (score.has_right_paths and score.has_direction)] == []
