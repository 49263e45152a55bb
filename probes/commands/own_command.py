"""The way to start our own commands from the user's shell, for hints that are to be pasted into it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

INSTALLED_AS = "soundings-agent"
"""The name of the installed program; from a clone it is started as `python -m probes`."""


def probes_command() -> str:
    """How this program was started: by its installed name, else as `python -m probes` with the Python that runs this
    process, which is `python` where that is on the PATH."""
    if Path(sys.argv[0]).name == INSTALLED_AS:
        return INSTALLED_AS
    return f"{_python()} -m probes"


def _python() -> str:
    executable = Path(sys.executable)
    on_path = shutil.which("python")
    if on_path is not None and Path(on_path).absolute() == executable:
        return "python"
    try:
        return str(executable.relative_to(Path.cwd()))
    except ValueError:
        return str(executable)
