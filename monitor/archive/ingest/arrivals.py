"""Parse a delivered batch into results.

In: the body of a delivery, as JSON or MessagePack. Out: a `ParsedBatch`, from which each result is parsed and
checked separately, so that a malformed result does not affect the others. Nothing is stored here.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import Meta

from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.ingest.kinds import KIND_OF_RESULT
from probes.bounds import LARGEST_BIGINT, NO_NUL, Count, Moment, Text
from probes.free_text import cleaned_tree
from probes.packets.columns import BurstArrays
from probes.site.health import Health
from probes.site.spool.blocks import read_block, values_at
from probes.site.wire import Account, BurstBlock, Delivered

LARGEST_BATCH = 10_000
"""Maximum results in a batch."""
LARGEST_RESULT_BYTES = 2**20
"""Maximum encoded size of a result; the RTTs of the largest burst take half of it."""
LARGEST_CLEANED_BYTES = 2**18
"""Of a result whose texts are cleaned, which takes some sixty times its size in memory as JSON of small objects."""
MOST_VALUES = 1_000_000
"""Maximum values in a JSON batch: JSON arrays do not announce their length, and each value takes memory before they
end."""
MOST_LENIENT_VALUES = 250_000
"""Maximum values in a JSON batch with NaN or Infinity, which is parsed through Python objects."""
RESULTS_AT_ONCE = 1000
BYTES_AT_ONCE = 2**20
"""Results decoded to structs at the same time; the others stay encoded."""
LARGEST_NUMBER = 2**48
"""Maximum batch number, so that a bigint can hold every position in it."""
LONGEST_KEPT = 10_000
"""Bytes stored of a refused result."""


class BatchRejected(ValueError):
    """The body is not a batch, or the batch's own fields cannot be stored."""


class BatchTooLarge(ValueError):
    """The batch must be sent in smaller parts."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`probes.site.wire.Batch` with bounds on its fields; results and agent health are still encoded. A malformed block
    spoils the batch: the agent then sends its results one by one."""

    spool: Annotated[Text, Meta(max_length=200)]
    number: Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]
    agent_version: Annotated[Text, Meta(max_length=200)]
    sent_at: Moment
    results: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=LARGEST_BATCH)]
    blocks: tuple[BurstBlock, ...] = ()
    queued: Count = 0
    dropped: Count = 0
    health: msgspec.Raw = msgspec.Raw()
    account: msgspec.Raw = msgspec.Raw()


class _Numbered(msgspec.Struct):
    """Sequence number of a result. `sequence` may exceed the accepted maximum, so that the refusal can name the result;
    the number after it must fit a bigint."""

    sequence: Annotated[int, Meta(ge=0, lt=LARGEST_BIGINT)]


@dataclass(frozen=True, slots=True)
class Format:
    """Encoding of a batch: decoders for the batch, a result, the sequence number of a malformed result, the agent's
    health and account, and any value."""

    envelope: Any
    delivered: Any
    numbered: Any
    health: Any
    account: Any
    anything: Any


DECODED = (Envelope, Delivered, _Numbered, Health | None, Account | None, Any)
JSON = Format(*map(msgspec.json.Decoder, DECODED))
MESSAGE_PACK = Format(*map(msgspec.msgpack.Decoder, DECODED))
TOO_MANY = f"Expected `array` of length <= {LARGEST_BATCH} - at `$.results`"
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class MalformedResult(NamedTuple):
    """A malformed or impossible result: its position in the batch, its sequence number, and the reason."""

    place: int
    sequence: int
    reason: str


@dataclass(frozen=True)
class ParsedBatch:
    """A batch whose own fields are valid. The positions of its results are followed by those of the bursts in its
    blocks, whose columns are in `columns`."""

    envelope: Envelope
    format: Format
    columns: tuple[BurstArrays, ...]

    def __len__(self) -> int:
        return len(self.envelope.results) + sum(map(len, self.columns))

    def blocks(self) -> Iterator[tuple[int, BurstBlock, BurstArrays]]:
        """Each block with the position of its first burst."""
        return zip(self._first_places, self.envelope.blocks, self.columns, strict=True)

    @cached_property
    def _first_places(self) -> tuple[int, ...]:
        lengths = map(len, self.columns[:-1])
        return tuple(accumulate(lengths, initial=len(self.envelope.results)))[: len(self.columns)]

    def encoded(self, place: int) -> msgspec.Raw:
        """The result at a position as a message of its own."""
        if place < len(self.envelope.results):
            return self.envelope.results[place]
        first, block, columns = self._block_at(place)
        encode = msgspec.json.encode if self.format is JSON else msgspec.msgpack.encode
        return msgspec.Raw(encode(values_at(block, columns, place - first)))

    def _block_at(self, place: int) -> tuple[int, BurstBlock, BurstArrays]:
        firsts = self._first_places
        number = bisect_right(firsts, place) - 1
        return firsts[number], self.envelope.blocks[number], self.columns[number]

    def portions(self) -> Iterator[range]:
        """Position ranges of the results, each range small enough to be decoded at once."""
        first = size = 0
        for place, encoded in enumerate(self.envelope.results):
            size += len(encoded)
            if place > first and (size > BYTES_AT_ONCE or place - first == RESULTS_AT_ONCE):
                yield range(first, place)
                first, size = place, len(encoded)
        if self.envelope.results:
            yield range(first, len(self.envelope.results))

    def read(self, places: Iterable[int]) -> tuple[dict[int, Delivered], list[MalformedResult]]:
        """Parse the results at these positions: valid results by position, and the refused ones."""
        results: dict[int, Delivered] = {}
        unreadable = []
        for place in places:
            try:
                delivered, contradiction = read_result(self.format, _bounded(self.encoded(place)))
            except UNDECODABLE as error:
                unreadable.append(MalformedResult(place, self.sequence_at(place), _reason(error)))
                continue
            if contradiction is None:
                results[place] = delivered
            else:
                unreadable.append(MalformedResult(place, delivered.sequence, contradiction))
        return results, unreadable

    def sequence_at(self, place: int) -> int:
        """Sequence number of a result, valid or not. A result without a number gets its negative position in the batch,
        so that a repeated delivery of the batch refers to it by the same number."""
        if place >= len(self.envelope.results):
            first, block, _ = self._block_at(place)
            return block.sequences[place - first]
        try:
            numbered: _Numbered = self.format.numbered.decode(self.envelope.results[place])
        except UNDECODABLE:
            return -(self.envelope.number * LARGEST_BATCH + place + 1)
        return numbered.sequence

    def health(self) -> Health | None:
        """Health reported by the agent; None where it is missing or malformed."""
        try:
            health: Health | None = self.format.health.decode(self.envelope.health)
        except UNDECODABLE:
            return None
        return health

    def account(self) -> Account | None:
        """Account of cycles without a result; None where it is missing or malformed."""
        try:
            account: Account | None = self.format.account.decode(self.envelope.account)
        except UNDECODABLE:
            return None
        return account

    def as_json(self, place: int) -> Any:
        """A result as PostgreSQL's jsonb can hold it: NaN as null, no NUL; oversized or non-JSON results as their first
        characters."""
        raw = self.encoded(place)
        try:
            value = for_jsonb(self.format.anything.decode(_bounded(raw)))
        except (*UNDECODABLE, TypeError, ValueError, OverflowError):
            return for_jsonb(bytes(memoryview(raw)[:LONGEST_KEPT]).decode(errors="replace"))
        written = msgspec.json.encode(value)
        return value if len(written) <= LONGEST_KEPT else written[:LONGEST_KEPT].decode(errors="replace")


def read_result(how: Format, encoded: msgspec.Raw) -> tuple[Delivered, str | None]:
    """Read a result, and why it is impossible: None if it is not. Where it is not valid its texts are cleaned, since
    no reading is refused for the name of a device. Raises `UNDECODABLE`."""
    try:
        delivered = cast("Delivered", how.delivered.decode(encoded))
        contradiction = contradiction_of(delivered)
        if contradiction is None:
            return delivered, None
    except UNDECODABLE as error:
        message = _with_cleaned_texts(how, encoded)
        if message is None:
            raise error from None
    else:
        message = _with_cleaned_texts(how, encoded)
        if message is None:
            return delivered, contradiction
    delivered = cast("Delivered", MESSAGE_PACK.delivered.decode(message))
    return delivered, contradiction_of(delivered)


def contradiction_of(delivered: Delivered) -> str | None:
    return KIND_OF_RESULT[type(delivered.result)].contradiction(delivered.result)


def _with_cleaned_texts(how: Format, encoded: msgspec.Raw) -> bytes | None:
    """The message with all its texts cleaned; None where they are clean, or it is large or cannot be read at all."""
    if len(encoded) > LARGEST_CLEANED_BYTES:
        return None
    try:
        whole = _anything(how, encoded)
        cleaned = cleaned_tree(whole)
        return None if cleaned == whole else msgspec.msgpack.encode(cleaned)
    except (*UNDECODABLE, ValueError, OverflowError):
        return None


def _anything(how: Format, encoded: msgspec.Raw) -> Any:
    """A message as dicts and lists. JSON may have half a character alone, which msgspec does not read."""
    return (
        json.loads(bytes(encoded), parse_int=_number, parse_constant=_refuse)
        if how is JSON
        else how.anything.decode(encoded)
    )


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _bounded(encoded: msgspec.Raw) -> msgspec.Raw:
    """Check that an encoded result is small enough to parse. Raises `ValidationError`."""
    if len(encoded) > LARGEST_RESULT_BYTES:
        most = f"{LARGEST_RESULT_BYTES}, the maximum of a result"
        raise msgspec.ValidationError(f"{len(encoded)} bytes are more than {most}")
    return encoded


def _reason(error: Exception) -> str:
    """Message of a msgspec error without regular expressions, as of the fields of a batch."""
    said = str(error).replace(f"Expected `str` matching regex {NO_NUL!r}", "A text holds a NUL character")
    return said.replace("\0", "\ufffd")


def read(body: bytes, how: Format) -> ParsedBatch:
    """Parse a body as a batch. Raises `BatchRejected` or `BatchTooLarge`."""
    if how is JSON and body.count(b",") > MOST_VALUES:
        raise BatchTooLarge(f"more than {MOST_VALUES} values; send smaller batches")
    try:
        envelope: Envelope = how.envelope.decode(body)
    except UNDECODABLE as error:
        if str(error) == TOO_MANY:
            raise BatchTooLarge(f"more than {LARGEST_BATCH} results; send smaller batches") from error
        if how is JSON and not isinstance(error, msgspec.ValidationError):
            rewritten = _encode_for_json(body)
            if rewritten is not None:
                return read(rewritten, MESSAGE_PACK)
        raise BatchRejected(f"not a batch: {_reason(error)}") from error
    if len(envelope.results) + sum(map(len, envelope.blocks)) > LARGEST_BATCH:
        raise BatchTooLarge(f"more than {LARGEST_BATCH} results; send smaller batches")
    try:
        return ParsedBatch(envelope, how, tuple(map(read_block, envelope.blocks)))
    except ValueError as error:
        raise BatchRejected(f"not a batch: a block is damaged: {error}") from error


def _encode_for_json(body: bytes) -> bytes | None:
    """Convert a JSON batch with NaN or Infinity to MessagePack, which has them, so that only the results holding them
    are refused. None where the batch is malformed otherwise.

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
    """An integer where MessagePack can hold it, else a float."""
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(text)
