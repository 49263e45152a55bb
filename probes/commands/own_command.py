"""The way to start our own commands from the user's shell, for hints that are to be pasted into it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def probes_command() -> str:
    """`python -m probes` with the Python that runs this process: `python` where that is on the PATH."""
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
