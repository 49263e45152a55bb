"""One kind of measurement that several tools can make: the first of them that can is used (`probes.contract.Probe`)."""

from __future__ import annotations

from typing import Generic

from probes.contract import Deadline, Probe, ResultT, SpecT


class Choice(Generic[SpecT, ResultT]):
    """Tools in order of preference. The last needs the least."""

    def __init__(self, *tools: Probe[SpecT, ResultT]) -> None:
        self._tools = tools

    def can_run(self, spec: SpecT) -> list[str]:
        """Why no tool can, each reason once; empty if any tool can."""
        found: list[str] = []
        for tool in self._tools:
            reasons = tool.can_run(spec)
            if not reasons:
                return []
            found += reasons
        return list(dict.fromkeys(found))

    def run(self, spec: SpecT, deadline: Deadline) -> ResultT:
        """Measure with the first tool that can. Where none can, the last one says so, with the outcome it has."""
        able = (tool for tool in self._tools if not tool.can_run(spec))
        return next(able, self._tools[-1]).run(spec, deadline)
