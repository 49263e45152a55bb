"""`python -m scripts.dist [DIR]`: build wheels and source distributions of the whole and of the agent, from git's files
only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("probes", "monitor", "dashboards", "packaging", "pyproject.toml", "README.md", "LICENSE", "*.example.toml")
BUILD = "import sys, setuptools.build_meta as backend; print(getattr(backend, 'build_' + sys.argv[1])(sys.argv[2]))"


def main(folder: Path) -> list[Path]:
    """Return each source distribution before its wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stages = _whole(Path(scratch) / "whole"), _agent(Path(scratch) / "agent")
        return [file for stage in stages for file in _build(stage, folder.resolve())]


def _whole(stage: Path) -> Path:
    _copy_tracked(stage, WHOLE)
    return stage


def _agent(stage: Path) -> Path:
    _copy_tracked(stage, ("probes", "LICENSE", "limits.example.toml"))
    packaging = ROOT / "packaging"
    shutil.copy(packaging / "agent" / "pyproject.toml", stage)
    shutil.copy(packaging / "agent" / "README.md", stage)
    shutil.copy(packaging / "soundings-agent.service", stage)
    shutil.copy(packaging / "requirements-agent.in", stage / "requirements.in")
    shutil.copy(packaging / "requirements-agent-snmp.in", stage / "requirements-snmp.in")
    return stage


def _copy_tracked(stage: Path, patterns: tuple[str, ...]) -> None:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, stage / name)
    names = [path.name for path in stage.iterdir()]
    requirements = "include packaging/*.in\ninclude *.in *.service\n"
    (stage / "MANIFEST.in").write_text(requirements + "".join(f"graft {name}\n" for name in names if "." not in name))


def _build(stage: Path, folder: Path) -> list[Path]:
    source = folder / _run_backend(stage, "sdist", folder)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(source) as archive:
        archive.extractall(scratch, filter="data")
        (unpacked,) = Path(scratch).iterdir()
        return [source, folder / _run_backend(unpacked, "wheel", folder)]


def _run_backend(stage: Path, kind: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    built = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(folder)],
        cwd=stage, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode != 0:
        raise SystemExit(f"dist: the {kind} of {stage.name} was not built:\n{built.stderr[-2000:]}")
    return built.stdout.splitlines()[-1]


if __name__ == "__main__":
    for file in main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file}")
