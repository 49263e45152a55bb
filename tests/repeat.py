"""`python -m tests.repeat NAME [ARGUMENTS]`: pytest, and once more those few tests that failed, one after the other.

A test that times packets on a busy machine fails by chance once in some thousand runs. One that fails again, alone, is
a failure. One that passes then is listed: it is to be mended all the same. NAME is a folder in pytest's cache, so that
runs beside each other keep apart what failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_REPEATED = 5
"""More failures than this have one cause, not chance."""
TESTS_FAILED = 1
"""pytest's exit status when tests failed; others tell of errors in the run itself."""
ROOT = Path(__file__).resolve().parents[1]


def failed_tests(cache: Path) -> list[str]:
    """The tests that failed in the last run with this cache folder."""
    try:
        failed = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
    except FileNotFoundError:
        return []
    return sorted(failed)


def run(name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run pytest, and those tests again that failed, if they are few. Returns the exit status of the last run."""
    cache = ROOT / ".pytest_cache" / name
    (cache / "v" / "cache" / "lastfailed").unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    env = {**os.environ, **(environment or {})}
    status = _run(name, pytest, env)
    failed = failed_tests(cache)
    if status != TESTS_FAILED or not 0 < len(failed) <= MOST_REPEATED:
        return status
    print(f"{name}: {len(failed)} tests failed and run again, alone: {', '.join(failed)}", flush=True)
    again = [*pytest, "-n", "0", "--last-failed", "--last-failed-no-failures", "none"]
    status = _run(name, again, env)
    verdict = "passed the second time, to be mended all the same" if status == 0 else "failed twice"
    print(f"{name}: {verdict}: {', '.join(failed if status == 0 else failed_tests(cache))}", flush=True)
    return status


def _run(name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print each line as it comes, behind the name: several runs write to one terminal."""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"{name}: {line}", end="", flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
