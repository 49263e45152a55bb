"""A transfer for each verdict, with the limit configured in the lab; `python -m tests.scored diagnosis` repeats them.

The documented accuracy is nine of ten. So a wrong verdict is retried, and only two in a row are a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from monitor.analysis.transfer import Verdict, diagnose
from tests.diagnosis.reading import recording
from tests.diagnosis.runs import LAB, expected_verdict, prepare, run
from tests.diagnosis.scenarios import SCENARIOS
from tests.lab import RunningLab

NEEDED = ("iperf3", "nft", "ss")

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in NEEDED) and not os.environ.get("CI"),
    reason=f"needs {', '.join(NEEDED)}",
)


@pytest.fixture(scope="module")
def two_ends(namespaces_required: None) -> Iterator[RunningLab]:
    """A lab shared by all scenarios: each configures its path and resets it."""
    with RunningLab(LAB) as lab:
        prepare(lab)
        yield lab


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_verdict_is_the_configured_limit(two_ends: RunningLab, name: str) -> None:
    scenario = SCENARIOS[name]
    expected = expected_verdict(two_ends, scenario)

    for attempt in range(4):
        diagnosis = diagnose(recording(run(two_ends, scenario)))
        # A busy host may leave the limit undetermined, and says so.
        if diagnosis.verdict is expected or (attempt and diagnosis.verdict is not Verdict.UNDETERMINED):
            break

    assert diagnosis.verdict is expected, diagnosis.sentence
