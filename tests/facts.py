"""Facts in a text for people: figures, states and names, whatever the words between them."""

from __future__ import annotations


def lacks(text: str, *facts: str) -> list[str]:
    """The facts that the text lacks, or has in another order."""
    missing, at = [], 0
    for fact in facts:
        place = text.find(fact, at)
        if place < 0:
            missing.append(fact)
        else:
            at = place + len(fact)
    return missing
