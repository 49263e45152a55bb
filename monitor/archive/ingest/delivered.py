"""A delivered result of any kind with its bounds, as the decoders of a batch parse it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from msgspec import Meta

from monitor.archive.columns import LARGEST_INTEGER
from monitor.archive.ingest.checked.values import Integer, Sequence
from monitor.archive.ingest.kinds import STORED_KINDS
from probes.contract import Result
from probes.site.wire import Delivered

if not TYPE_CHECKING:
    Result = Union[tuple(result for stored in STORED_KINDS.values() for result in stored.results)]  # noqa: UP007


class CheckedDelivered(Delivered, frozen=True, kw_only=True, gc=False):
    """A delivered result of a kind that is stored, within its bounds."""

    sequence: Sequence
    test: Annotated[str, Meta(max_length=200)]
    every_s: Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)] | None = None
    cycle: Integer | None = None
    result: Result
