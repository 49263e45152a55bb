"""The folder with TimescaleDB, which several targets of make may need at the same time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "timescale.sh"
DEBOOTSTRAP = """#!/bin/bash
echo made >>"$MADE"
sleep 0.5
bin="${*: -1}/usr/lib/postgresql/17/bin"
mkdir -p "$bin"
touch "$bin/postgres"
chmod +x "$bin/postgres"
"""


def test_two_at_once_make_the_folder_once(tmp_path):
    programs, root = tmp_path / "bin", tmp_path / "cache" / "timescale"
    programs.mkdir()
    for name, text in (("debootstrap", DEBOOTSTRAP), ("id", "#!/bin/sh\necho 0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "MADE": str(tmp_path / "made")}

    runs = [subprocess.Popen(["bash", SCRIPT, root], env=environment, stdout=subprocess.DEVNULL) for _ in range(2)]

    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    assert (tmp_path / "made").read_text() == "made\n"
    assert (root / "usr/lib/postgresql/17/bin/postgres").exists()
