"""Scores of statements on simulated paths with planted faults: `python -m tests.scored` lists their names."""


def count_of(number: int, share: float) -> int:
    """This share of a number of simulations, one at least."""
    return max(round(number * share), 1)
