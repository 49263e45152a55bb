"""Facts in a text for people: figures, states and names, independent of the wording."""

from __future__ import annotations


def lacks(text: str, *facts: str) -> list[str]:
    """The facts that are missing in the text, or are in another order."""
    missing, at = [], 0
    for fact in facts:
        place = text.find(fact, at)
        if place < 0:
            missing.append(fact)
        else:
            at = place + len(fact)
    return missing
