"""Kinds of problems of an agent or its machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    NIC_DROPS = "NIC drops"
    CLOCK = "clock"
    LOAD = "load"
    BACKLOG = "backlog"

    @property
    def disturbs_measurements(self) -> bool:
        """Whether it can delay or lose pings. RTTs do not depend on the wall clock."""
        return self in (ProblemKind.NIC_DROPS, ProblemKind.LOAD)


@dataclass(frozen=True, slots=True)
class AgentProblem:
    kind: ProblemKind
    text: str
