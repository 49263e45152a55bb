"""`make audit` ends with 0 only if every package was checked and has no known vulnerability."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.facts import lacks

ROOT = Path(__file__).parents[2]
AUDIT = runpy.run_path(str(ROOT / "scripts/audit.py"))
# A fake pip-audit: writes the given text into the file of --output and exits with the given status.
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
    def run(packages, status=0, output="", files=("requirements.txt",)):
        text = "" if packages is None else json.dumps({"dependencies": packages, "fixes": []})
        result = AUDIT["main"](files, [sys.executable, "-c", PIP_AUDIT, text, str(status), output])
        return result, capsys.readouterr().out.splitlines()

    return run


def test_no_known_vulnerability_is_success(audit):
    status, [line] = audit([GOOD])

    assert status == 0
    assert lacks(line, "requirements.txt:", " 1 packages", "looked up", "no known vulnerabilities") == []


def test_a_known_vulnerability_is_named_with_its_remedy(audit):
    status, lines = audit([GOOD, BAD], status=1)

    assert status == 1
    assert lacks(f"{lines[0]}\n", "requirements.txt:", "zstandard 0.1:", "PYSEC-1,", " 0.2\n") == []


def test_an_unreachable_service_is_a_failure(audit):
    status, lines = audit(None, status=1, output="Traceback\nConnectionError: no route to host\n")

    assert status == 1
    [line] = lines
    assert "NOT CHECKED" in line
    assert "cannot be reached" in line
    assert lacks(line, "ConnectionError: no route to host", "AUDIT_SERVICE") == []


def test_packages_that_the_service_skips_are_a_failure(audit):
    """Pip-audit ends with 0 and reports nothing, where a mirror has no advisories."""
    status, [line] = audit([GOOD, SKIPPED], status=0, output="No known vulnerabilities found")

    assert status == 1
    assert "NOT CHECKED" in line
    assert lacks(line, " 1 of 2 packages", "msgspec") == []


def test_an_unchecked_file_is_a_failure(audit):
    status, lines = audit(None, status=1, files=("requirements.txt", "packaging/requirements-agent.txt"))

    assert status == 1
    assert [line.partition(":")[0] for line in lines] == ["requirements.txt", "packaging/requirements-agent.txt"]


def test_every_pinned_file_is_checked():
    [command] = [line for line in (ROOT / "scripts/audit.sh").read_text().splitlines() if line.startswith("exec")]
    pinned = {
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("requirements*.txt"), *ROOT.glob("packaging/requirements*.txt")]
    }

    # The runtime's requirements are part of the development requirements.
    assert set(command.split()[4:]) == pinned - {"requirements.txt"}
    assert "-r requirements.in" in (ROOT / "requirements-dev.in").read_text()


def test_programs_inside_wheels_are_listed_with_versions(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    info = packages / "lite-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: lite\nVersion: 1.0\n")
    (info / "RECORD").write_text("bin/true,,\nbin/library.so,,\nbin/script,,\n")
    (packages / "bin").mkdir()
    for name, content in (
        ("true", Path("/bin/true").read_bytes()),
        ("library.so", b"\x7fELF"),
        ("script", b"#!/bin/sh"),
    ):
        (packages / "bin" / name).write_bytes(content)
        (packages / "bin" / name).chmod(0o755)
    version = subprocess.run(["/bin/true", "--version"], capture_output=True, text=True, check=True).stdout.split()[3]

    assert list(AUDIT["programs"](tmp_path)) == [f"lite 1.0: {version}: true"]
