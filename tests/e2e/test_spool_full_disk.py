"""The spool on a full disk: a small tmpfs, and a limit on file size; both enforced by the kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = '''
import contextlib, json, resource, signal, sqlite3, sys
from pathlib import Path
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import NoRoom, Spool
from tests.unit.site.test_spool import result, slot, NOW

folder, how = Path(sys.argv[1]), sys.argv[2]
path = folder / "spool.sqlite3"
# 2026-11-21 12:00 UTC; cycles of a minute.
FIRST = int(NOW.timestamp()) // 60
now_s = [NOW.timestamp()]
spool = Spool(path, now_s=lambda: now_s[0])
spool.record_start()

def measure(number, size=20_000):
    """As an agent does each minute: take the cycle, put its results, end it."""
    now_s[0] = (FIRST + number) * 60.0
    cycle = Cycle("pinger", 60, FIRST + number)
    measured = spool.claim_cycle(cycle)
    stored = spool.put([result(number, "x" * size)], cycle=cycle)
    spool.end_cycle(cycle)
    return measured, stored

def fill():
    if how == "tmpfs":
        with open(folder / "filler", "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(4096))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, resource.RLIM_INFINITY))

def make_room():
    if how == "tmpfs":
        (folder / "filler").unlink()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

before = [measure(number) for number in range(3)]
fill()
full = [measure(number) for number in range(3, 60)]
slot_taken = [spool.claim_slot(slot(5), NOW), spool.claim_slot(slot(5), NOW)]
try:
    spool.next_batch(max_results=1000, max_bytes=10**9, now=NOW, agent_version="test")
    formed = "formed"
except NoRoom:
    formed = "no room"
make_room()
after = [measure(number) for number in range(60, 62)]
arrived, gaps, dropped, until = [], [], 0, None
while (batch := spool.next_batch(max_results=7, max_bytes=10**9, now=NOW, agent_version="test")) is not None:
    arrived += [delivered.path_id for delivered in batch.results]
    gaps += [[gap.reason, int(gap.since.timestamp()) // 60 - FIRST, int(gap.until.timestamp()) // 60 - FIRST]
             for gap in batch.account.gaps]
    dropped, until = batch.dropped, batch.account.until
    spool.acknowledge(batch.number)
kinds = [[dropped.kind, dropped.reason, dropped.count] for dropped in spool.dropped_by_kind()]
spool.close()
with contextlib.closing(sqlite3.connect(path)) as connection:
    verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
print(json.dumps({"before": before, "full": full, "after": after, "slot": slot_taken, "formed": formed,
    "arrived": arrived, "gaps": gaps, "dropped": dropped, "kinds": kinds, "verdict": verdict}))
'''


def run(how: str, folder: Path) -> dict:
    """The output of the program, run where `folder` is a tmpfs of 1 MiB, or an ordinary folder."""
    program = [sys.executable, "-c", PROGRAM, str(folder), how]
    if how == "tmpfs":
        script = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"'
        program = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(folder), *program]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("how", ["tmpfs", "limit"])
def test_measuring_continues_on_a_full_disk_with_losses_counted(how, tmp_path, request):
    if how == "tmpfs":
        request.getfixturevalue("namespaces_required")

    report = run(how, tmp_path)

    assert report["before"] == [[True, True]] * 3
    assert all(measured for measured, _ in report["full"])
    lost = [number for number, (_, stored) in enumerate(report["full"], 3) if not stored]
    assert lost, "the disk was never full"
    assert report["after"] == [[True, True]] * 2
    assert report["slot"] == [True, False]
    assert report["arrived"] == [number for number in range(62) if number not in lost]
    assert report["dropped"] == len(lost)
    assert report["kinds"] == [["ping", "disk_full", len(lost)]]
    in_gaps = {number for reason, first, end in report["gaps"] if reason == "disk_full" for number in range(first, end)}
    assert in_gaps == set(lost)
    assert report["verdict"] == "ok"
