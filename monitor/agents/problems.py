"""The kinds of problems of an agent or its machine; `monitor.agents.health` judges which of them it has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """Kinds of problems."""

    NIC_DROPS = "NIC drops"
    CLOCK = "clock"
    LOAD = "load"
    BACKLOG = "backlog"

    @property
    def disturbs_measurements(self) -> bool:
        """Whether it can delay or lose packets of the agent's own pings. RTTs do not depend on the wall clock."""
        return self in (ProblemKind.NIC_DROPS, ProblemKind.LOAD)


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """A problem in words."""

    kind: ProblemKind
    text: str
