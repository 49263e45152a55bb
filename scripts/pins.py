"""`make pins`: check that pins resolve to wheels for other Python versions and processors.

pip's dry run evaluates markers for the running Python, so the target's lines are selected here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

TOP = Path(__file__).resolve().parents[1]
# Versions that wheels of these are for: all that Debian 12, with 2.36, runs.
GLIBC = ("2_17", "2_28", "2_34")


@dataclass(frozen=True, slots=True)
class Target:
    python: str
    machine: str

    @property
    def markers(self) -> dict[str, str]:
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "platform_machine": self.machine,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }

    @property
    def pip_options(self) -> list[str]:
        platforms = [f"manylinux_{version}_{self.machine}" for version in GLIBC]
        platforms += [f"manylinux2014_{self.machine}", f"linux_{self.machine}"]
        return ["--python-version", self.python, *(word for name in platforms for word in ("--platform", name))]

    def __str__(self) -> str:
        return f"Python {self.python}, {self.machine}"


TARGETS = [Target(python, machine) for machine in ("x86_64", "aarch64") for python in ("3.11", "3.12", "3.13")]


def selected(text: str, target: Target) -> str:
    """A requirements file's lines for this target, without markers and hashes."""
    return "".join(
        f"{pin.name}{pin.specifier}\n"
        for pin in _pins(text)
        if pin.marker is None or pin.marker.evaluate(dict(target.markers))
    )


def _pins(text: str) -> Iterator[Requirement]:
    for line in text.replace("\\\n", " ").splitlines():
        pin = re.split(r"\s+--hash=|\s+#|^\s*#", line)[0].strip()
        if pin:
            yield Requirement(pin)


def resolve(text: str, target: Target) -> str | None:
    """Return pip's reason if the pins do not resolve, else None."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text(selected(text, target))
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        command += [*target.pip_options, "--ignore-requires-python", "--target", folder, "--requirement", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def main() -> int:
    """Return exit status 1 if a target does not resolve."""
    text, failed = (TOP / "requirements.txt").read_text(), False
    for target in TARGETS:
        reason = resolve(text, target)
        failed |= reason is not None
        print(f"{target}: {'resolves' if reason is None else reason}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
