"""What `make check` makes of tests that fail: run again alone, and a failure if they fail twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import repeat

ONCE = """
from pathlib import Path

def test_well(): pass

def test_fails_once():
    mark = Path(__file__).with_name("mark")
    first = not mark.exists()
    mark.touch()
    assert not first
"""
ALWAYS = "def test_always(): assert False\n"


def repeated(tmp_path: Path, text: str) -> tuple[int, str]:
    (tmp_path / "test_it.py").write_text(text)
    code = f"""
import sys; from pathlib import Path; from tests import repeat
repeat.ROOT = Path({str(tmp_path)!r})
sys.exit(repeat.run("it", ["-p", "xdist.plugin", "-c", "/dev/null", {str(tmp_path)!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        # The plugins take most of the time of so small a run.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(repeat.__file__).parents[1],
    )
    return done.returncode, done.stdout


def test_a_test_that_fails_once_is_listed_and_no_failure(tmp_path):
    status, output = repeated(tmp_path, ONCE)

    assert status == 0, output
    assert "passed the second time" in output.splitlines()[-1]
    assert "test_fails_once" in output.splitlines()[-1]
    assert "it: " in output.splitlines()[0]
    assert "1 failed, 1 passed" in output
    assert "1 passed" in output


@pytest.mark.parametrize("text", [ALWAYS, ONCE + ALWAYS])
def test_a_test_that_fails_twice_is_a_failure(tmp_path, text):
    status, output = repeated(tmp_path, text)

    assert status == repeat.TESTS_FAILED
    assert "failed twice" in output.splitlines()[-1]
    assert "test_always" in output.splitlines()[-1]
    assert "test_fails_once" not in output.splitlines()[-1]


def test_many_failures_are_not_repeated(tmp_path):
    status, output = repeated(tmp_path, "".join(f"def test_{n}(): assert False\n" for n in range(6)))

    assert status == repeat.TESTS_FAILED
    assert "run again" not in output


def test_a_run_that_broke_is_not_repeated(tmp_path):
    status, output = repeated(tmp_path, "import nowhere_to_be_had\n")

    assert status not in (0, repeat.TESTS_FAILED)
    assert "run again" not in output
