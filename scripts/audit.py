"""Look pinned packages up in an advisory service (AUDIT_SERVICE: `pypi`, the default, or `osv`): `make audit`.

Exit 1: vulnerabilities are known, or not every package could be looked up, where pip-audit itself ends with 0. Programs
inside wheels, unknown to the service, are listed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

SERVICE_TIMEOUT_S = 15
VERSION_TIMEOUT_S = 10
MOST_PROGRAMS = 3
ELF = b"\x7fELF"


class AuditError(Exception):
    """The message has the reason."""


def look_up(file: Path, service: str, pip_audit: Sequence[str]) -> list[dict[str, Any]]:
    """Raises `AuditError` where pip-audit has no answer."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json"]
        options += [f"--vulnerability-service={service}", f"--timeout={SERVICE_TIMEOUT_S}", f"--output={report}"]
        command = [*pip_audit, f"--requirement={file}", *options]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            packages: list[dict[str, Any]] = json.loads(report.read_text())["dependencies"]
        except (OSError, ValueError) as error:
            raise AuditError(_last_line(run.stderr)) from error
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        raise AuditError(f"it has no answer for {len(skipped)} of {len(packages)} packages, {skipped[0]} the first")
    return packages


def vulnerabilities(packages: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"mended in {', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for package in packages
        for vulnerability in package["vulns"]
    ]


def programs(environment: Path) -> Iterator[str]:
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    for package in sorted(distributions(path=folders), key=lambda package: package.name.lower()):
        names: dict[str, set[str]] = {}
        for path in _programs_of(package):
            names.setdefault(_version(path), set()).add(path.name)
        for version, same in names.items():
            shown = ", ".join(sorted(same)[:MOST_PROGRAMS])
            more = len(same) - MOST_PROGRAMS
            yield f"{package.name} {package.version}: {version}: {shown}{f' and {more} more' if more > 0 else ''}"


def _programs_of(package: Distribution) -> Iterator[Path]:
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        if ".so" not in path.name and path.is_file() and os.access(path, os.X_OK):
            with path.open("rb") as content:
                if content.read(len(ELF)) == ELF:
                    yield path


def _version(program: Path) -> str:
    try:
        run = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return "version not told"
    version = re.search(r"\d+(?:\.\d+)+", run.stdout)
    return version.group() if version else "version not told"


def main(files: Sequence[str], pip_audit: Sequence[str] = (sys.executable, "-m", "pip_audit")) -> int:
    service = os.environ.get("AUDIT_SERVICE", "pypi")
    status = 0
    for file in files:
        try:
            packages = look_up(Path(file), service, pip_audit)
        except AuditError as error:
            print(
                f"{file}: NOT CHECKED: the advisory service {service} cannot be reached or gives no answer: {error};"
                " run it where the service can be reached, or set AUDIT_SERVICE to the other one"
            )
            status = 1
            continue
        lines = vulnerabilities(packages)
        print(*(f"{file}: {line}" for line in lines), sep="\n", end="\n" if lines else "")
        print(f"{file}: {len(packages)} packages looked up, {len(lines) or 'no'} known vulnerabilities")
        status = 1 if lines else status
    return status


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "pip-audit wrote no report")


if __name__ == "__main__":
    found = list(programs(Path(sys.argv[1])))
    print("programs inside wheels, which the service does not know:", *found, sep="\n    ")
    sys.exit(main(sys.argv[2:]))
