"""Show a spinner with activity and elapsed time on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress(activity: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on standard error; yield a function that changes its text."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task(activity)
        yield lambda text: shown.update(task, description=text)
