"""Parse TOML, and find lines for error messages (docs/adr/0002-line-numbers-of-mesh-toml.md)."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Path of keys and list indexes from the top of the document.
Place = tuple[str | int, ...]

_TOKEN = re.compile(
    r'''(?P<skip>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
      | (?P<mark>[\[\]{}=,.])
      | (?P<bare>[^\s\[\]{}=,.\#"']+)''',
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_POSITION = re.compile(r" \((?:at line (?P<line>\d+), column (?P<column>\d+)|at end of document)\)$")
_FIXES = (
    ("Cannot overwrite a value", "a key is set twice; keep one of the two"),
    ("Cannot declare", "a table is declared twice, or a list of tables is written as a table; write [[…]] for each"),
    ("Invalid value", "write text in double quotes, and numbers, true and false without"),
    ("Expected '='", "write one key = value a line"),
    ("Expected newline", "write one key = value a line"),
    ("Unclosed array", "a list needs a closing ] and a comma between its elements"),
    ("Unterminated string", "a string needs closing quotes"),
    ("Illegal character", "a string needs closing quotes on the same line"),
)


class TomlSyntaxError(Exception):
    """The text is not valid TOML. `line` counts from 1; the message has the error and a fix."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class DeclaredTwice(TomlSyntaxError):
    """A key or table is declared twice, or in two ways."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def parse(text: str) -> dict[str, Any]:
    """Parse a document. Raises `TomlSyntaxError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(text, str(error)) from error
    except ValueError as error:
        # TOML's own integers have 64 bits; Python refuses only those of more than 4,300 digits.
        raise TomlSyntaxError(_line_of_long_number(text), "this number is too long; write at most 18 digits") from error
    except RecursionError as error:
        raise _nested_too_deeply(text) from error


def find_lines(text: str) -> dict[Place, int]:
    """Line of every place in a valid document. Raises `TomlSyntaxError` if nested too deeply."""
    try:
        return _Locator(text).lines
    except RecursionError as error:
        raise _nested_too_deeply(text) from error


def table_headers(text: str) -> Iterator[tuple[int, Place]]:
    """Line and place of each header in single brackets, in an invalid document too."""
    for line, content in enumerate(text.split("\n"), 1):
        header = _HEADER.match(content)
        if header is not None:
            yield line, tuple(header[1].split("."))


def suggestion(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """` (did you mean "cern"?)` if a candidate is close to `word`, else `otherwise`."""
    close = closest_match(word, candidates)
    return f' (did you mean "{close}"?)' if close else otherwise


def closest_match(word: str, candidates: Iterable[str]) -> str:
    """The closest candidate to `word`, ignoring case; empty if none is close."""
    folded = {candidate.casefold(): candidate for candidate in sorted(candidates)}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def _syntax_error(text: str, message: str) -> TomlSyntaxError:
    position = _POSITION.search(message)
    reason = message[: position.start()] if position else message
    line, where = text.count("\n") + 1, "the end of the file"
    if position and position["line"]:
        line, where = int(position["line"]), f"column {position['column']}"
    fix = next((fix for start, fix in _FIXES if reason.startswith(start)), "see toml.io for the syntax")
    error = DeclaredTwice if reason.startswith(("Cannot declare", "Cannot overwrite")) else TomlSyntaxError
    return error(line, f"this is not valid TOML, at {where}: {reason[0].lower()}{reason[1:]}: {fix}")


def _line_of_long_number(text: str) -> int:
    longest = max(re.finditer(r"[0-9_]+", text), key=lambda digits: len(digits[0]))
    return text.count("\n", 0, longest.start()) + 1


def _nested_too_deeply(text: str) -> TomlSyntaxError:
    brackets = [line.count("[") + line.count("{") for line in text.split("\n")]
    line = brackets.index(max(brackets)) + 1
    return TomlSyntaxError(line, "lists or tables are nested too deeply; at most three levels are needed here")


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None and match.lastgroup != "skip":
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
    yield _Token("end", "", line)


class _Locator:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {(): 1}
        self._lengths: dict[Place, int] = {}
        self._tokens = list(_tokens(text))
        self._at = 0
        self._document()

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._token
        self._at += 1
        return token

    def _accept(self, mark: str) -> bool:
        matches = self._token.kind == "mark" and self._token.text == mark
        self._at += matches
        return matches

    def _skip_newlines(self) -> None:
        while self._token.kind == "newline":
            self._at += 1

    def _document(self) -> None:
        table: Place = ()
        while True:
            self._skip_newlines()
            if self._token.kind == "end":
                return
            if self._accept("["):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Place:
        line = self._token.line
        is_list = self._accept("[")
        *above, last = self._key()
        place: Place = ()
        for key in above:
            place = self._newest((*place, key), line)
        place = (*place, last)
        if is_list:
            self.lines.setdefault(place, line)
            self._lengths[place] = self._lengths.get(place, 0) + 1
            place = (*place, self._lengths[place] - 1)
        self.lines[place] = line
        self._accept("]")
        self._accept("]")
        return place

    def _newest(self, place: Place, line: int) -> Place:
        self.lines.setdefault(place, line)
        length = self._lengths.get(place)
        return place if length is None else (*place, length - 1)

    def _pair(self, place: Place) -> None:
        line = self._token.line
        for key in self._key():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._accept("=")
        self._value(place)

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self._accept("."):
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        token = self._next()
        if token.kind == "bare":
            return token.text
        return next(iter(tomllib.loads(f"{token.text} = 0")))

    def _value(self, place: Place) -> None:
        if self._accept("["):
            self._list(place)
        elif self._accept("{"):
            self._inline_table(place)
        else:
            self._scalar()

    def _list(self, place: Place) -> None:
        index = 0
        while True:
            self._skip_newlines()
            if self._accept("]"):
                return
            if self._accept(","):
                index += 1
                continue
            self.lines[(*place, index)] = self._token.line
            self._value((*place, index))

    def _inline_table(self, place: Place) -> None:
        while not self._accept("}"):
            self._pair(place)
            self._accept(",")

    def _scalar(self) -> None:
        """Skip a value; dates and floats have several tokens."""
        while self._token.kind not in ("newline", "end") and self._token.text not in (",", "]", "}"):
            self._at += 1
