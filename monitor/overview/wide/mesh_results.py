"""Results that change only with the mesh, cached for all readers of a process if large."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

from monitor.accounts.read_limits import is_limited
from monitor.mesh.queries import mesh_version

Result = TypeVar("Result")

_every: list[MeshResult[Any]] = []


def load_early() -> None:
    """Load a large mesh's results before the first readers."""
    for result in _every:
        result.load_early()


class MeshResult(Generic[Result]):
    """Result of `load`, kept until sites, hosts, paths, tests or measurements change."""

    def __init__(self, load: Callable[[], Result], *, is_large: Callable[[Result], bool]) -> None:
        self.load = load
        self.is_large = is_large
        self._was_large = False
        self._kept: tuple[Hashable, Result] | None = None
        self._lock = Lock()
        _every.append(self)

    def get(self) -> Result:
        """The result for the present mesh. A reader with limits of its own gets a result of its own."""
        if is_limited():
            return self.load()
        # The version is read first: a result loaded during a change of the mesh has the version before it.
        version = mesh_version() if self._was_large else None
        with self._lock:
            kept = self._kept
        if version is not None and kept is not None and kept[0] == version:
            return kept[1]
        result = self.load()
        self._was_large = self.is_large(result)
        with self._lock:
            self._kept = (version, result) if self._was_large and version is not None else None
        return result

    def load_early(self) -> None:
        self._was_large = True
        self.get()
