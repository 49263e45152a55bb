"""The systemd service of an installed agent: started once the site has joined."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from probes.data_folder import SYSTEM_AGENT

UNIT = "soundings-agent.service"
UNIT_FOLDERS = (Path("/etc/systemd/system"), Path("/lib/systemd/system"), Path("/usr/lib/systemd/system"))
# Exists where systemd is the init system (sd_booted(3)).
SYSTEMD_RUNS = Path("/run/systemd/system")


def is_installed() -> bool:
    """Whether the service and a running systemd are here."""
    has_unit = any((folder / UNIT).exists() for folder in UNIT_FOLDERS)
    return has_unit and SYSTEMD_RUNS.is_dir() and shutil.which("systemctl") is not None


def start_after_join(data: Path) -> str | None:
    """Enable and start the service as root for its `data`; a sentence for the user, or None."""
    if data.resolve() != SYSTEM_AGENT.resolve() or os.geteuid() != 0 or not is_installed():
        return None
    enabled = subprocess.run(["systemctl", "enable", "--quiet", UNIT], capture_output=True, text=True, check=False)
    started = subprocess.run(["systemctl", "restart", UNIT], capture_output=True, text=True, check=False)
    failed = next((done for done in (enabled, started) if done.returncode != 0), None)
    if failed is not None:
        return f"{' '.join(failed.args)} failed: {failed.stderr.strip()}; look at: journalctl -u {UNIT}"
    return f"the service {UNIT} runs, now and after each start of this machine"
