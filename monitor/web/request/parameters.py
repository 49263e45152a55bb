"""Parameters of page addresses. An invalid choice is a 404 that lists the valid choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.http import Http404, HttpRequest

from monitor.accounts.shared_links import OF_THE_DOCUMENT

Choice = TypeVar("Choice", bound=StrEnum)

PAGE_ROWS = 25
MOST_PAGES = 100_000


@dataclass(frozen=True, slots=True)
class Option:
    label: str
    query: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows `first` to `last` of a long list."""

    offset: int
    rows: int
    total: int | None  # None if not counted
    newer: str | None
    older: str | None

    @property
    def first(self) -> int:
        return self.offset + 1

    @property
    def last(self) -> int:
        return self.offset + self.rows


def choice(request: HttpRequest, name: str, kind: type[Choice], default: Choice) -> Choice:
    given = request.GET.get(name, default.value)
    try:
        return kind(given)
    except ValueError as error:
        raise Http404(f"{name}={given}: choose one of {', '.join(kind)}") from error


def number(request: HttpRequest, name: str, most: int = 2**31 - 1) -> int | None:
    """Parse a whole number from 1 on."""
    given = request.GET.get(name, "")
    if given == "":
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 10 and 1 <= int(given) <= most):
        raise Http404(f"{name}={given}: give a whole number from 1 on")
    return int(given)


def text(request: HttpRequest, name: str) -> str | None:
    given = request.GET.get(name, "")
    if "\x00" in given:
        raise Http404(f"{name}: not a text")
    return given or None


def options(
    request: HttpRequest, name: str, labelled: list[tuple[str, Any]], chosen: object, *, without: tuple[str, ...] = ()
) -> list[Option]:
    """Options that set the parameter `name` and drop those in `without`."""
    others = {key: value for key, value in kept(request).items() if key not in without}
    return [
        Option(label, urlencode({**others, name: value}, doseq=True), chosen=value == chosen)
        for label, value in labelled
    ]


def offset(request: HttpRequest) -> int:
    return ((number(request, "page", MOST_PAGES) or 1) - 1) * PAGE_ROWS


def sheet(request: HttpRequest, rows: int, *, total: int | None = None, more: bool = False) -> Sheet:
    """Without `total`, `more` tells whether rows follow."""
    before = offset(request)
    has_older = more if total is None else before + rows < total
    page = before // PAGE_ROWS + 1

    def to(number: int) -> str:
        return urlencode({**kept(request), "page": number}, doseq=True)

    return Sheet(before, rows, total, to(page - 1) if page > 1 else None, to(page + 1) if has_older else None)


def kept(request: HttpRequest) -> dict[str, Any]:
    return {name: values for name, values in request.GET.lists() if name not in OF_THE_DOCUMENT}
