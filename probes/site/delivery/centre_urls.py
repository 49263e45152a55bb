"""The URLs of one centre, by preference, and the URL in use: kept while healthy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from probes.site.delivery.centre_clock import steady_s

# How often an earlier URL is checked, to return to it when healthy.
RETURN_EVERY_S = 60.0


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
        current = self.current
        return [current, *(url for url in self._urls if url != current)]

    def use(self, url: str) -> None:
        """Go on with this URL; an earlier one is checked after `RETURN_EVERY_S`."""
        if url != self.current:
            self.current = url
            self._checked_s = self._now_s()

    def return_to_earlier(self, is_healthy: Callable[[str], bool]) -> None:
        """Use the first healthy earlier URL, if their last check is long enough ago."""
        if self._now_s() - self._checked_s < RETURN_EVERY_S:
            return
        self._checked_s = self._now_s()
        earlier = self._urls[: self._urls.index(self.current)]
        self.use(next(filter(is_healthy, earlier), self.current))
