"""The folder for data where nothing names another: beside the program in a clone, else where the system has it."""

from __future__ import annotations

import os
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1]
"""The folder with `probes`: a clone, or the packages of a Python that has Soundings installed."""
SYSTEM = Path("/var/lib/soundings")
SYSTEM_AGENT = Path("/var/lib/soundings-agent")
"""The agent's folder where root runs it, as the systemd service of its package does."""


def in_clone() -> bool:
    """Whether this program runs from a clone."""
    return (PROGRAM / "manage.py").is_file()


def default_data() -> Path:
    """`data` beside manage.py in a clone. For an installed program /var/lib/soundings if root runs it, else the folder
    `soundings` where the XDG Base Directory Specification has a user's data."""
    if in_clone():
        return PROGRAM / "data"
    if os.geteuid() == 0:
        return SYSTEM
    home = os.environ.get("XDG_DATA_HOME", "")
    # The specification says to ignore a relative path.
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share") / "soundings"


def default_agent_data() -> Path:
    """The folder of an agent: in a clone `data/agent` in the current folder, for root that of the systemd service, else
    `agent` below `default_data`."""
    if in_clone():
        return Path("data/agent")
    return SYSTEM_AGENT if os.geteuid() == 0 else default_data() / "agent"
