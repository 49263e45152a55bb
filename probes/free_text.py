"""The rule for free text from outside: printable, on a single line, and of bounded length.

`fault` is for texts that a person wrote, who can mend them; `cleaned` for those of devices and agents: no reading is
refused for a name. Used by the readers of TOML, the probes, the centre and its API.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 2000
"""Characters: sentences of errors are the longest texts."""
REPLACEMENT = "\ufffd"
# Controls and line separators (C0, C1, U+2028, U+2029), what turns the direction of a text, and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_SPACES = re.compile(r"[ ]*[\t\n\r\v\f\x85\u2028\u2029]+[ ]*")


def fault(text: str) -> str | None:
    """The character that may not be in a text, or that it is too long, to follow `must`; None for a good text."""
    found = _UNPRINTABLE.search(text)
    if found is not None:
        return f"be printable and on one line: character {found.start() + 1} is U+{ord(found.group()):04X}; remove it"
    if len(text) > LONGEST:
        return f"have at most {LONGEST:,} characters, not {len(text):,}; shorten it"
    return None


def cleaned(text: str, most: int = LONGEST) -> str:
    """The text on one line, with a replacement for each character that cannot be printed."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    return _UNPRINTABLE.sub(REPLACEMENT, _SPACES.sub(" ", text)).strip()[:most]


def cleaned_tree(value: Any) -> Any:
    """A decoded message with all its texts cleaned."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, dict):
        return {cleaned_tree(key): cleaned_tree(below) for key, below in value.items()}
    return [cleaned_tree(below) for below in value] if isinstance(value, list | tuple) else value
