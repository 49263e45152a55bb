"""The way to start our own commands from the user's shell, for hints that are to be pasted into it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

INSTALLED_AS = "soundings-agent"
"""The name of the installed program; from a clone it is started as `python -m probes`."""


def probes_command() -> str:
    """How to start the commands that measure: `soundings-agent` where it is installed, else `python -m probes` with
    the Python that runs this process, which is `python` where that is on the PATH."""
    return INSTALLED_AS if is_installed() else f"{_python()} -m probes"


def agent_command(verb: str) -> str:
    """How to start a command of a site's agent: `run` or one such as `join`."""
    if is_installed():
        return f"{INSTALLED_AS} {verb}"
    return f"{_python()} -m probes site" + ("" if verb == "run" else f" {verb}")


def is_installed() -> bool:
    """Whether this Python's folder of programs has the agent's, as it has after an installation with pip."""
    return Path(sys.executable).with_name(INSTALLED_AS).is_file()


def _python() -> str:
    executable = Path(sys.executable)
    on_path = shutil.which("python")
    if on_path is not None and Path(on_path).absolute() == executable:
        return "python"
    try:
        return str(executable.relative_to(Path.cwd()))
    except ValueError:
        return str(executable)


MANAGE = "soundings" if is_installed() else "manage.py"
"""The program of the centre's commands, as it is called where this runs."""
