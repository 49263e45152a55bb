"""Tables of `planted`, faults and which of them the rules detect."""

from __future__ import annotations

from collections.abc import Callable

from tests.planted import (
    detectors,
    drops,
    lab,
    loss_times,
    one_way,
    one_way_delay,
    recurrent,
    responses,
    shared,
    simulated,
    slow_rises,
)
from tests.planted.simulated import Sizes
from tests.reproduce.table import Table

TABLES: dict[str, Callable[[Sizes], Table]] = {
    "loss": simulated.loss_regression,
    "detectors": detectors.table,
    "shared": shared.table,
    "shared-quiet": shared.quiet,
    "one-way": one_way.table,
    "one-way-quiet": one_way.quiet,
    "one-way-delay": one_way_delay.table,
    "one-way-delay-quiet": one_way_delay.quiet,
    "threshold": simulated.loss_above,
    "loss-times": loss_times.table,
    "round-trips": simulated.round_trips,
    "slow-rises": slow_rises.table,
    "throughput": simulated.throughput_falls,
    "drops": drops.table,
    "responses": responses.table,
    "causes": simulated.causes,
    "blips": simulated.blips,
    "recurrent": recurrent.table,
    "quiet": simulated.quiet,
    "lab": lambda sizes: lab.table(),
}


def _parts(make: Callable[[Sizes], Table]) -> Callable[[float], Table]:
    return lambda share: make(Sizes.of(share))


PARTS = {name: _parts(make) for name, make in TABLES.items()}
