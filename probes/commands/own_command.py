"""Our own commands as the user's shell starts them, for hints."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

# Installed program; a clone starts it as `python -m probes`.
INSTALLED_AS = "soundings-agent"


def probes_command() -> str:
    """`soundings-agent` if installed, else `python -m probes` with this process's Python."""
    return INSTALLED_AS if is_installed() else f"{_python()} -m probes"


def agent_command(verb: str) -> str:
    """Command line of an agent's command, such as `run` or `join`."""
    if is_installed():
        return f"{INSTALLED_AS} {verb}"
    return f"{_python()} -m probes site" + ("" if verb == "run" else f" {verb}")


def is_installed() -> bool:
    """Whether the agent's program is installed beside this Python, as by pip."""
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


# The program of the centre's commands, as it is called where this runs.
MANAGE = "soundings" if is_installed() else "manage.py"
