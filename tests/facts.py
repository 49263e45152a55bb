"""Facts in a text for people: figures, states and names, independent of the wording."""

from __future__ import annotations

import re


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


def claimed(text):
    """The least and the most that a text says of a loss, as ratios: of a figure half a unit of its last digit."""
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    if text.startswith(("below ", "up to ")):
        return 0.0, float(numbers[0]) / 100
    if len(numbers) == 2:
        return float(numbers[0]) / 100, float(numbers[1]) / 100
    half = 0.5 * 10.0 ** -len(numbers[0].partition(".")[2])
    return (float(numbers[0]) - half) / 100, (float(numbers[0]) + half) / 100
