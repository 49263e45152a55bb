"""`make`, and its script of `make setup`: a line for each step while pip works, and pip's failure is the script's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "setup.sh"
PACKAGES = 45
PIP = """#!/bin/sh
for number in $(seq 45); do
    echo "Collecting package$number==1.0 (from -r requirements-dev.txt (line $number))"
    echo "  Downloading package$number-1.0-py3-none-any.whl (12 kB)"
done
[ "$FAILS" = 1 ] && { echo "ERROR: no hash of package45" >&2; exit 1; }
echo "Installing collected packages: package1, package2"
echo "Successfully installed package1-1.0 package2-1.0"
"""


@pytest.fixture
def setup(tmp_path):
    (tmp_path / "requirements-dev.txt").write_text("".join(f"package{n}==1.0 \\\n    --hash=x\n" for n in range(45)))
    pip = tmp_path / "venv" / "bin" / "python"
    pip.parent.mkdir(parents=True)
    pip.write_text(PIP)
    pip.chmod(0o755)

    def run(**variables):
        command, environment = ["bash", str(SCRIPT), "venv"], {**os.environ, "PYTHON": sys.executable, **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_each_step_of_a_first_setup_has_a_line_and_usual_time(setup, tmp_path):
    done = setup()

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert (tmp_path / "venv" / ".installed").exists()
    assert all(line.startswith("setup: ") for line in lines)
    assert [line for line in lines if "45 packages fetched" in line] == [
        f"setup: {taken} of {PACKAGES} packages fetched" for taken in (20, 40)
    ]
    slow = [line for line in lines if "minute" in line]
    assert [word for word, line in zip(("fetching", "unpacking"), slow, strict=True) if word in line] == [
        "fetching",
        "unpacking",
    ]


def test_a_failing_pip_fails_the_setup_and_its_error_is_shown(setup, tmp_path):
    done = setup(FAILS="1")

    assert done.returncode != 0
    assert "no hash of package45" in done.stderr
    assert not (tmp_path / "venv" / ".installed").exists()


def test_make_keeps_bytecode_whatever_the_environment_says():
    command = [
        "make",
        "--silent",
        "--no-print-directory",
        "--eval",
        'probe: ; @echo "[$$PYTHONDONTWRITEBYTECODE]"',
        "probe",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"
