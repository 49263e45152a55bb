"""Default data folders: in a clone beside the program, else at the system's usual places."""

from __future__ import annotations

import os
from pathlib import Path

# A clone's root, or the site-packages with `probes`.
PROGRAM = Path(__file__).resolve().parents[1]
SYSTEM = Path("/var/lib/soundings")
# Used where root runs the agent, as its package's systemd service does.
SYSTEM_AGENT = Path("/var/lib/soundings-agent")


def in_clone() -> bool:
    return (PROGRAM / "manage.py").is_file()


def default_data() -> Path:
    """`data` in a clone, /var/lib/soundings for root, else `soundings` in the user's XDG data folder."""
    if in_clone():
        return PROGRAM / "data"
    if os.geteuid() == 0:
        return SYSTEM
    home = os.environ.get("XDG_DATA_HOME", "")
    # The specification says to ignore a relative path.
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share") / "soundings"


def default_agent_data() -> Path:
    """`data/agent` in a clone, `SYSTEM_AGENT` for root, else `agent` in `default_data`."""
    if in_clone():
        return Path("data/agent")
    return SYSTEM_AGENT if os.geteuid() == 0 else default_data() / "agent"
