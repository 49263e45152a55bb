"""The random inputs of a reader, each from a number of its own, and the parts of it that several readers share."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

FEW = 300
SEED = os.environ.get("SOUNDINGS_FUZZ_SEED", "1")
CASES = int(os.environ.get("SOUNDINGS_FUZZ_CASES", FEW))


def cases(name: str) -> Iterator[tuple[str, random.Random]]:
    """Yield the label of each case, for the message of a failure, and its random numbers."""
    for number in range(CASES):
        label = f"SOUNDINGS_FUZZ_SEED={SEED}, {name} {number}"
        yield label, random.Random(label)


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Content in which one to eight stretches are overwritten, removed, repeated or cut off."""
    broken = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(broken) + 1)
        end = at + int(2 ** chance.uniform(0, 8))
        match chance.randrange(5):
            case 0:
                broken[at:end] = chance.randbytes(end - at)
            case 1:
                del broken[at:end]
            case 2:
                broken[at:at] = broken[at:end]
            case 3:
                broken[at : at + 1] = bytes([chance.choice((0x00, 0x0A, 0x22, 0x2D, 0x7F, 0x80, 0xFF))])
            case _:
                del broken[at + (len(broken) - at) // 2 :]
    return bytes(broken)


ODD_VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.0, -0.5, 1e-300, 1e300,
    float("inf"), float("nan"), "", "\x00", "\n", "é" * 300, "-1", "1e9", [], {}, [[]], [None], {"": None},
)  # fmt: skip


def odd(tree: object, chance: random.Random) -> object:
    """A copy of a tree of dicts and lists with one to four of its values replaced, removed or repeated."""
    whole = _copy(tree)
    for _ in range(chance.randint(1, 4)):
        _break_one(whole, chance)
    return whole


def _copy(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def _break_one(tree: object, chance: random.Random) -> None:
    """Walk down at random and break what is there."""
    while isinstance(tree, dict | list) and tree:
        key = chance.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        below = tree[key]
        if isinstance(below, dict | list) and below and chance.random() < 0.9:
            tree = below
            continue
        match chance.randrange(4):
            case 0 if isinstance(tree, list):
                tree.append(below)
            case 0 | 1:
                del tree[key]
            case _:
                tree[key] = _copy(chance.choice(ODD_VALUES))
        return
