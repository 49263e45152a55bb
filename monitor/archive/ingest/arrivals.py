"""Parse a delivered batch, each result separately, so that malformed results affect no others. Nothing is stored."""

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

# Maximum results in a batch.
LARGEST_BATCH = 10_000
# Maximum encoded size of a result; the RTTs of the largest burst take half of it.
LARGEST_RESULT_BYTES = 2**20
# Maximum size of a result to clean: as JSON of small objects it takes sixty times this in memory.
LARGEST_CLEANED_BYTES = 2**18
# Maximum values in a JSON batch: arrays do not announce their length, and values take memory before they end.
MOST_VALUES = 1_000_000
# Maximum values in a JSON batch with NaN or Infinity, which is parsed through Python objects.
MOST_LENIENT_VALUES = 250_000
RESULTS_AT_ONCE = 1000
# Results decoded to structs at the same time; the others stay encoded.
BYTES_AT_ONCE = 2**20
# Maximum batch number, so that a bigint can hold every position in it.
LARGEST_NUMBER = 2**48
# Maximum bytes stored of a refused result.
LONGEST_KEPT = 10_000


class BatchRejected(ValueError):
    """The body is not a batch, or its own fields cannot be stored."""


class BatchTooLarge(ValueError):
    """The batch must be sent in smaller parts."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """`probes.site.wire.Batch` with bounds; results and health stay encoded. A malformed block spoils the batch."""

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
    """Sequence number, possibly above the maximum, so that the refusal can name it."""

    sequence: Annotated[int, Meta(ge=0, lt=LARGEST_BIGINT)]


@dataclass(frozen=True, slots=True)
class Format:
    """Decoders of an encoding, JSON or MessagePack."""

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
    place: int
    sequence: int
    reason: str


@dataclass(frozen=True)
class ParsedBatch:
    """Batch with valid fields. Positions count results, then the bursts in blocks."""

    envelope: Envelope
    format: Format
    columns: tuple[BurstArrays, ...]

    def __len__(self) -> int:
        return len(self.envelope.results) + sum(map(len, self.columns))

    def blocks(self) -> Iterator[tuple[int, BurstBlock, BurstArrays]]:
        """Yield each block with its first burst's position."""
        return zip(self._first_places, self.envelope.blocks, self.columns, strict=True)

    @cached_property
    def _first_places(self) -> tuple[int, ...]:
        lengths = map(len, self.columns[:-1])
        return tuple(accumulate(lengths, initial=len(self.envelope.results)))[: len(self.columns)]

    def encoded(self, place: int) -> msgspec.Raw:
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
        """Yield position ranges small enough to decode at once."""
        first = size = 0
        for place, encoded in enumerate(self.envelope.results):
            size += len(encoded)
            if place > first and (size > BYTES_AT_ONCE or place - first == RESULTS_AT_ONCE):
                yield range(first, place)
                first, size = place, len(encoded)
        if self.envelope.results:
            yield range(first, len(self.envelope.results))

    def read(self, places: Iterable[int]) -> tuple[dict[int, Delivered], list[MalformedResult]]:
        """Parse these positions: valid results by position, and refused results."""
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
        """Sequence number; without a number the negative position, stable over repeated deliveries."""
        if place >= len(self.envelope.results):
            first, block, _ = self._block_at(place)
            return block.sequences[place - first]
        try:
            numbered: _Numbered = self.format.numbered.decode(self.envelope.results[place])
        except UNDECODABLE:
            return -(self.envelope.number * LARGEST_BATCH + place + 1)
        return numbered.sequence

    def health(self) -> Health | None:
        """Reported health; None where missing or malformed."""
        try:
            health: Health | None = self.format.health.decode(self.envelope.health)
        except UNDECODABLE:
            return None
        return health

    def account(self) -> Account | None:
        """Account of cycles without a result; None where missing or malformed."""
        try:
            account: Account | None = self.format.account.decode(self.envelope.account)
        except UNDECODABLE:
            return None
        return account

    def as_json(self, place: int) -> Any:
        """Convert for jsonb: NaN as null, no NUL; oversized or non-JSON results truncated."""
        raw = self.encoded(place)
        try:
            value = for_jsonb(self.format.anything.decode(_bounded(raw)))
        except (*UNDECODABLE, TypeError, ValueError, OverflowError):
            return for_jsonb(bytes(memoryview(raw)[:LONGEST_KEPT]).decode(errors="replace"))
        written = msgspec.json.encode(value)
        return value if len(written) <= LONGEST_KEPT else written[:LONGEST_KEPT].decode(errors="replace")


def read_result(how: Format, encoded: msgspec.Raw) -> tuple[Delivered, str | None]:
    """Read a result, and why it is impossible, or None; texts of invalid results are cleaned. Raises `UNDECODABLE`."""
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
    """Clean all texts; None where clean, too large or undecodable."""
    if len(encoded) > LARGEST_CLEANED_BYTES:
        return None
    try:
        whole = _anything(how, encoded)
        cleaned = cleaned_tree(whole)
        return None if cleaned == whole else msgspec.msgpack.encode(cleaned)
    except (*UNDECODABLE, ValueError, OverflowError):
        return None


def _anything(how: Format, encoded: msgspec.Raw) -> Any:
    # Decode to dicts and lists; JSON may hold lone surrogates.
    return (
        json.loads(bytes(encoded), parse_int=_number, parse_constant=_refuse)
        if how is JSON
        else how.anything.decode(encoded)
    )


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _bounded(encoded: msgspec.Raw) -> msgspec.Raw:
    """Return the result itself. Raises `ValidationError` if it is too large."""
    if len(encoded) > LARGEST_RESULT_BYTES:
        most = f"{LARGEST_RESULT_BYTES}, the maximum of a result"
        raise msgspec.ValidationError(f"{len(encoded)} bytes are more than {most}")
    return encoded


def _reason(error: Exception) -> str:
    said = str(error).replace(f"Expected `str` matching regex {NO_NUL!r}", "A text holds a NUL character")
    return said.replace("\0", "\ufffd")


def read(body: bytes, how: Format) -> ParsedBatch:
    """Parse a batch. Raises `BatchRejected` or `BatchTooLarge`."""
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
    """Convert JSON with NaN or Infinity to MessagePack; None without these, or if malformed. Raises `BatchTooLarge`."""
    if b"NaN" not in body and b"Infinity" not in body:
        return None
    if body.count(b",") > MOST_LENIENT_VALUES:
        raise BatchTooLarge(f"NaN or Infinity among more than {MOST_LENIENT_VALUES} values; send smaller batches")
    try:
        return msgspec.msgpack.encode(json.loads(body, parse_int=_number))
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> int | float:
    # Integer where MessagePack can hold it, else a float.
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(text)
