"""Delegates to the first of several tools that can run."""

from __future__ import annotations

from typing import Any, Generic

from probes.contract import Deadline, Probe, ResultT, SpecT


class Choice(Generic[SpecT, ResultT]):
    """A probe with several tools in order of preference, the least demanding last."""

    def __init__(self, *tools: Probe[SpecT, ResultT]) -> None:
        self._tools = tools

    def can_run(self, spec: SpecT) -> list[str]:
        """Distinct reasons why no tool can run."""
        all_reasons: list[str] = []
        for tool in self._tools:
            reasons = tool.can_run(spec)
            if not reasons:
                return []
            all_reasons += reasons
        return list(dict.fromkeys(all_reasons))

    def run(self, spec: SpecT, deadline: Deadline, *options: Any) -> ResultT:
        """Measure with the first tool that can run, else let the last raise its error."""
        usable = (tool for tool in self._tools if not tool.can_run(spec))
        tool: Any = next(usable, self._tools[-1])
        result: ResultT = tool.run(spec, deadline, *options)
        return result
