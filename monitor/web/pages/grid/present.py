"""The present of a path in words, as its cells in the grids of now have it, for its own page.

In: a `PathNow`. Out: a `PathPresent` for the template.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.overview.mesh_state import PathNow
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.web.pages.grid import cells
from monitor.web.request import times


@dataclass(frozen=True, slots=True)
class PathPresent:
    """`when` is `now`, or the time of the newest data; `signs` are those of the cell of the loss, each with its style,
    `figures` names with their texts, and `sentence` is the cell of the loss in full. `check` is what the sentence on
    the mesh says of a path without an open incident, and `is_checked` whether it does not call the path normal."""

    when: str
    signs: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, str], ...]
    sentence: str
    check: str
    is_checked: bool


def path_present(path_id: int, path_now: PathNow) -> PathPresent:
    """The present of the path; without figures where nothing pings it."""
    check, is_checked = path_now.checked.words_of(path_id), path_now.checked.not_normal > 0
    if not path_now.loss.figures or not path_now.rtt.figures:
        return PathPresent("now", (), (), "", check, is_checked)
    (loss,), (rtt,) = path_now.loss.figures, path_now.rtt.figures
    return PathPresent(
        "now" if loss.stale_at is None else f"as of {times.clock_second(loss.stale_at)}",
        tuple(cells.signs(path_now.loss, loss)),
        _figures(path_now, loss, rtt),
        cells.sentence(path_now.loss, loss),
        check,
        is_checked,
    )


def _figures(path_now: PathNow, loss: PathFigures, rtt: PathFigures) -> tuple[tuple[str, str], ...]:
    """The loss and the RTT; where there is no RTT to tell, the state alone."""
    if loss.state is FigureState.TOTAL_LOSS and loss.unanswered_since is not None:
        return (("no reply since", times.clock_second(loss.unanswered_since)),)
    if not loss.has_figure:
        return (("", cells.cell_text(path_now.loss, loss)),)
    return ("loss", cells.cell_text(path_now.loss, loss)), ("median RTT", cells.cell_text(path_now.rtt, rtt))
