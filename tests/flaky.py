"""`python -m tests.flaky [TIMES]`: run the tests of e2e and net again and again on a busy machine, and list failures.

Each of TIMES (20) runs goes through every file of both folders, one at a time, with `stress-ng --cpu 2` beside it. What
was run is kept in .cache/flaky.jsonl after each file, so that a run that was stopped goes on there: all take days. A
test that fails in some runs and passes in others depends on timing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.repeat import TESTS_FAILED, failed_tests

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / ".cache" / "flaky.jsonl"
FOLDERS = ("tests/e2e", "tests/net")
TIMES = 20
BUSY_PROCESSORS = 2
LONGEST_S = 3600
# pytest's exit status: all passed, some failed, or none was collected.
WHOLE_RUNS = (0, TESTS_FAILED, 5)


def main(arguments: list[str]) -> int:
    """Exit status 0 if no test failed in any run, 1 otherwise, 2 usage."""
    times = int(arguments[0]) if arguments else TIMES
    stress = shutil.which("stress-ng")
    if stress is None:
        print("flaky: stress-ng is not installed; run: apt install stress-ng", file=sys.stderr)
        return 2
    STORED.parent.mkdir(exist_ok=True)
    done = {(run["number"], run["file"]) for run in _stored()}
    load = subprocess.Popen([stress, "--quiet", "--cpu", str(BUSY_PROCESSORS)])
    try:
        for number in range(times):
            for file in _files():
                if (number, file) not in done:
                    run = {"number": number, "file": file, "failed": _failed(file)}
                    with STORED.open("a") as stored:
                        stored.write(f"{json.dumps(run)}\n")
    finally:
        load.terminate()
        load.wait()
    return _report()


def _files() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py"))


def _stored() -> Iterator[dict[str, object]]:
    for line in STORED.read_text().splitlines() if STORED.exists() else []:
        yield json.loads(line)


def _failed(file: str) -> list[str]:
    """The tests of a file that failed; the file itself where the run broke."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-o", f"cache_dir={cache}", file]
        try:
            status = subprocess.run(command, cwd=ROOT, timeout=LONGEST_S, check=False).returncode
        except subprocess.TimeoutExpired:
            return [f"{file}: longer than {LONGEST_S} s"]
        broke = [] if status in WHOLE_RUNS else [f"{file}: pytest ended with {status}"]
        return failed_tests(Path(cache)) or broke


def _report() -> int:
    failed: Counter[str] = Counter()
    runs = set()
    for run in _stored():
        runs.add(run["number"])
        failed.update(run["failed"])  # type: ignore[arg-type]
    for name, number in failed.most_common():
        print(f"{number} of {len(runs)}  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
