"""`make audit` ends with 0 only where every package was looked up and nothing is known of any."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from tests.facts import lacks

ROOT = Path(__file__).parents[2]
AUDIT = runpy.run_path(str(ROOT / "scripts/audit.py"))
# Writes what it is told into the file of --output and ends as it is told, as pip-audit does.
PIP_AUDIT = """
import sys
text, status, said = sys.argv[1:4]
output = next(word.partition("=")[2] for word in sys.argv if word.startswith("--output="))
if text:
    open(output, "w").write(text)
print(said, file=sys.stderr)
sys.exit(int(status))
"""
GOOD = {"name": "redis", "version": "7.0.1", "vulns": []}
BAD = {"name": "zstandard", "version": "0.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["0.2"], "aliases": []}]}
SKIPPED = {"name": "msgspec", "skip_reason": "Dependency not found on PyPI and could not be audited: msgspec (0.1)"}


@pytest.fixture
def audit(capsys):
    def run(packages, status=0, said="", files=("requirements.txt",)):
        text = "" if packages is None else json.dumps({"dependencies": packages, "fixes": []})
        result = AUDIT["main"](files, [sys.executable, "-c", PIP_AUDIT, text, str(status), said])
        return result, capsys.readouterr().out.splitlines()

    return run


def test_nothing_known_is_success(audit):
    status, [line] = audit([GOOD])

    assert status == 0
    assert lacks(line, "requirements.txt:", " 1 packages", "looked up", "no known vulnerabilities") == []


def test_a_known_vulnerability_is_named_with_its_remedy(audit):
    status, lines = audit([GOOD, BAD], status=1)

    assert status == 1
    assert lacks(f"{lines[0]}\n", "requirements.txt:", "zstandard 0.1:", "PYSEC-1,", " 0.2\n") == []


def test_a_service_out_of_reach_is_no_good_answer(audit):
    status, lines = audit(None, status=1, said="Traceback\nConnectionError: no route to host\n")

    assert status == 1
    [line] = lines
    assert "NOT CHECKED" in line
    assert "cannot be reached" in line
    assert line.endswith("ConnectionError: no route to host")


def test_packages_that_the_service_skips_are_no_good_answer(audit):
    """Pip-audit ends with 0 and says that nothing is known, where a mirror knows no advisories."""
    status, [line] = audit([GOOD, SKIPPED], status=0, said="No known vulnerabilities found")

    assert status == 1
    assert "NOT CHECKED" in line
    assert lacks(line, " 1 of 2 packages", "msgspec") == []


def test_one_file_that_was_not_checked_spoils_the_whole(audit):
    status, lines = audit(None, status=1, files=("requirements.txt", "packaging/requirements-agent.txt"))

    assert status == 1
    assert [line.partition(":")[0] for line in lines] == ["requirements.txt", "packaging/requirements-agent.txt"]


def test_what_is_looked_up_is_all_that_is_pinned():
    [command] = [line for line in (ROOT / "scripts/audit.sh").read_text().splitlines() if line.startswith("exec")]
    pinned = {
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("requirements*.txt"), *ROOT.glob("packaging/requirements*.txt")]
    }

    # What runs is among what develops.
    assert set(command.split()[3:]) == pinned - {"requirements.txt"}
    assert "-r requirements.in" in (ROOT / "requirements-dev.in").read_text()
