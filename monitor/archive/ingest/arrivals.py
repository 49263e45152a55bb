"""A batch as it arrives: bytes become results, one by one.

In: the body of a delivery, as JSON or MessagePack. Out: an `Arrival`, from which each result is read and checked by
itself: one that is of the wrong type or impossible does not spoil the others. Nothing is stored here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from monitor.archive.ingest.checks import LARGEST_BIGINT, NO_NUL, CheckedDelivered, Integer, Moment, Text
from probes.site.health import Health
from probes.site.wire import Account, Batch

LARGEST_BATCH = 10_000
"""Results in one batch."""
LARGEST_RESULT_BYTES = 2**20
"""Encoded; as many round trips as a burst can have are half of it."""
MOST_VALUES = 1_000_000
"""In a batch of JSON, whose arrays do not say how long they are, and take memory for each value before they end."""
MOST_LENIENT_VALUES = 250_000
"""In a batch of JSON with NaN or Infinity in it, which is read by way of Python's objects."""
RESULTS_AT_ONCE = 1000
BYTES_AT_ONCE = 2**20
"""Results and their encoded bytes that are held as structs at the same time; the others wait as they came."""
LARGEST_NUMBER = 2**48
"""Of a batch, so that a bigint can name each place in it."""
LONGEST_KEPT = 10_000
"""Bytes that are kept of a refused result."""


class BatchRejected(ValueError):
    """Not a batch, or one whose own fields, those around the results, cannot be stored."""


class BatchTooLarge(ValueError):
    """A batch that must come in parts."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`probes.site.wire.Batch` within its bounds, its results and what the agent says of itself still encoded."""

    spool: Annotated[Text, Meta(max_length=200)]
    number: Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]
    agent_version: Annotated[Text, Meta(max_length=200)]
    sent_at: Moment
    results: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=LARGEST_BATCH)]
    queued: Integer = 0
    dropped: Integer = 0
    health: msgspec.Raw = msgspec.Raw()
    account: msgspec.Raw = msgspec.Raw()


class _Numbered(msgspec.Struct):
    """`sequence` may be larger than is believed, so that the refusal names the result; one more must fit a bigint."""

    sequence: Annotated[int, Meta(ge=0, lt=LARGEST_BIGINT)]


@dataclass(frozen=True, slots=True)
class Format:
    """One way of writing a batch: what decodes the batch, a result, the number of one that is unsound, the agent's
    health, its account, anything."""

    envelope: Any
    delivered: Any
    numbered: Any
    health: Any
    account: Any
    anything: Any


DECODED = (Envelope, CheckedDelivered, _Numbered, Health | None, Account | None, Any)
JSON = Format(*map(msgspec.json.Decoder, DECODED))
MESSAGE_PACK = Format(*map(msgspec.msgpack.Decoder, DECODED))
TOO_MANY = f"Expected `array` of length <= {LARGEST_BATCH} - at `$.results`"
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Unreadable(NamedTuple):
    """A result that is not one, or an impossible one: its place in the batch, its number in the spool, and why."""

    place: int
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch whose own fields are sound."""

    envelope: Envelope
    format: Format

    def __len__(self) -> int:
        return len(self.envelope.results)

    def portions(self) -> Iterator[range]:
        """The places of results, as many together as may be held as structs."""
        first = size = 0
        for place, encoded in enumerate(self.envelope.results):
            size += len(encoded)
            if place > first and (size > BYTES_AT_ONCE or place - first == RESULTS_AT_ONCE):
                yield range(first, place)
                first, size = place, len(encoded)
        if len(self):
            yield range(first, len(self))

    def read(self, places: range) -> tuple[dict[int, CheckedDelivered], list[Unreadable]]:
        """The results at these places that are sound in themselves, by place, and the others."""
        decode, encoded = self.format.delivered.decode, self.envelope.results
        results: dict[int, CheckedDelivered] = {}
        unreadable = []
        for place in places:
            try:
                results[place] = decode(_bounded(encoded[place]))
            except UNDECODABLE as error:
                unreadable.append(Unreadable(place, self.sequence_at(place), _reason(error)))
        return results, unreadable

    def sequence_at(self, place: int) -> int:
        """The number in the spool of a result, sound or not. One that has none is named by its place in the batch, as a
        negative number: deliveries of the same batch agree on it."""
        try:
            numbered: _Numbered = self.format.numbered.decode(self.envelope.results[place])
        except UNDECODABLE:
            return -(self.envelope.number * LARGEST_BATCH + place + 1)
        return numbered.sequence

    def health(self) -> Health | None:
        """How the agent is; None where it does not say so, or in a way that is not known here."""
        try:
            health: Health | None = self.format.health.decode(self.envelope.health)
        except UNDECODABLE:
            return None
        return health

    def account(self) -> Account | None:
        """What became of cycles without a result; None where it does not say so, or in a way that is not known here."""
        try:
            account: Account | None = self.format.account.decode(self.envelope.account)
        except UNDECODABLE:
            return None
        return account

    def as_json(self, place: int) -> Any:
        """What PostgreSQL's jsonb can hold of a result: NaN as null, no NUL, and as text the beginning of what is
        long or not even JSON."""
        raw = self.envelope.results[place]
        try:
            value = for_jsonb(self.format.anything.decode(_bounded(raw)))
        except (*UNDECODABLE, TypeError, ValueError, OverflowError):
            return for_jsonb(bytes(memoryview(raw)[:LONGEST_KEPT]).decode(errors="replace"))
        written = msgspec.json.encode(value)
        return value if len(written) <= LONGEST_KEPT else written[:LONGEST_KEPT].decode(errors="replace")


def _bounded(encoded: msgspec.Raw) -> msgspec.Raw:
    """An encoded result that is not too large to be looked into. Raises `ValidationError`."""
    if len(encoded) > LARGEST_RESULT_BYTES:
        most = f"{LARGEST_RESULT_BYTES}, the most of one result"
        raise msgspec.ValidationError(f"{len(encoded)} bytes are more than {most}")
    return encoded


def _reason(error: Exception) -> str:
    """What msgspec says, in words that somebody who does not read patterns understands."""
    said = str(error).replace(f"Expected `str` matching regex {NO_NUL!r}", "A text holds a NUL character")
    return said.replace("\0", "\ufffd")


def for_jsonb(value: Any) -> Any:
    """`value` as PostgreSQL's jsonb can hold it: NaN as null, and no NUL characters."""
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"\\u0000", b"\\ufffd"))


def read(body: bytes, how: Format) -> Arrival:
    """The batch in a body. Raises `BatchRejected` or `BatchTooLarge`."""
    if how is JSON and body.count(b",") > MOST_VALUES:
        raise BatchTooLarge(f"more than {MOST_VALUES} values; send smaller batches")
    try:
        envelope: Envelope = how.envelope.decode(body)
    except UNDECODABLE as error:
        if str(error) == TOO_MANY:
            raise BatchTooLarge(f"more than {LARGEST_BATCH} results; send smaller batches") from error
        if how is JSON and not isinstance(error, msgspec.ValidationError):
            rewritten = _with_what_json_has_not(body)
            if rewritten is not None:
                return read(rewritten, MESSAGE_PACK)
        raise BatchRejected(f"not a batch: {_reason(error)}") from error
    return Arrival(envelope, how)


def _with_what_json_has_not(body: bytes) -> bytes | None:
    """The batch as MessagePack, which can write NaN and Infinity, so that only the results that hold them are refused.
    JSON cannot, but many programs write them into it. None where that is not what is wrong with it.

    Raises `BatchTooLarge`.
    """
    if b"NaN" not in body and b"Infinity" not in body:
        return None
    if body.count(b",") > MOST_LENIENT_VALUES:
        raise BatchTooLarge(f"NaN or Infinity among more than {MOST_LENIENT_VALUES} values; send smaller batches")
    try:
        return msgspec.msgpack.encode(json.loads(body, parse_int=_number))
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> int | float:
    """What MessagePack can write of a whole number."""
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(text)


def arrival_of(batch: Batch) -> Arrival:
    """A batch that is at hand as structs, as it would arrive. Raises as `read` does."""
    return read(msgspec.msgpack.encode(batch), MESSAGE_PACK)
