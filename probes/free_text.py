"""The rule for free text from outside: printable, single-line, bounded.

`fault` is for people's texts; `cleaned`, for devices' and agents', refuses nothing.
"""

from __future__ import annotations

import re
from typing import Any

# Characters: sentences of errors are the longest texts.
LONGEST = 2000
REPLACEMENT = "\ufffd"
# Controls and line separators (C0, C1, U+2028, U+2029), what turns the direction of a text, and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_SPACES = re.compile(r"[ ]*[\t\n\r\v\f\x85\u2028\u2029]+[ ]*")


def fault(text: str) -> str | None:
    """Why a text is not allowed, to follow `must`, or None."""
    found = _UNPRINTABLE.search(text)
    if found is not None:
        return f"be printable and on one line: character {found.start() + 1} is U+{ord(found.group()):04X}; remove it"
    if len(text) > LONGEST:
        return f"have at most {LONGEST:,} characters, not {len(text):,}; shorten it"
    return None


def cleaned(text: str, most: int = LONGEST) -> str:
    """Put a text on one line, without unprintable characters."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    return _UNPRINTABLE.sub(REPLACEMENT, _SPACES.sub(" ", text)).strip()[:most]


def cleaned_tree(value: Any) -> Any:
    """Clean all texts of a decoded message."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, dict):
        return {cleaned_tree(key): cleaned_tree(below) for key, below in value.items()}
    return [cleaned_tree(below) for below in value] if isinstance(value, list | tuple) else value
