"""The URLs of one centre, in order of preference, and which of them is in use.

An agent stays with a URL while that is healthy. After a failure it goes on with the next that answers, and checks from
time to time whether an earlier one is healthy again. All lead to the same centre, and any may get any request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from probes.site.delivery.centre_clock import steady_s

RETURN_EVERY_S = 60.0
"""How often a URL of less preference is left for an earlier one that is healthy again."""


class CentreUrls:
    """Any thread may use it: at worst two threads check or change the URL at once."""

    def __init__(self, urls: Sequence[str], *, now_s: Callable[[], float] = steady_s) -> None:
        self._urls = tuple(url.rstrip("/") for url in urls)
        self.current = self._urls[0]
        self._now_s = now_s
        self._checked_s = now_s()

    def __iter__(self) -> Iterator[str]:
        return iter(self._urls)

    def __len__(self) -> int:
        return len(self._urls)

    def in_turn(self) -> list[str]:
        """The current URL, then the others by preference."""
        current = self.current
        return [current, *(url for url in self._urls if url != current)]

    def use(self, url: str) -> None:
        """Go on with this URL; an earlier one is checked after `RETURN_EVERY_S`."""
        if url != self.current:
            self.current = url
            self._checked_s = self._now_s()

    def return_to_earlier(self, is_healthy: Callable[[str], bool]) -> None:
        """Use the first of the earlier URLs that is healthy, if their last check is long enough ago."""
        if self._now_s() - self._checked_s < RETURN_EVERY_S:
            return
        self._checked_s = self._now_s()
        earlier = self._urls[: self._urls.index(self.current)]
        self.use(next(filter(is_healthy, earlier), self.current))
