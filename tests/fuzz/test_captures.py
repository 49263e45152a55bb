"""Mutated captures through the whole analysis: each gives findings or the reader's own error, in bounded time."""

from __future__ import annotations

import gzip
import random
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from monitor.analysis.packets import (
    CaptureError,
    KeptPart,
    Unread,
    connections_of,
    lost_between,
    no_data_reason,
    read_capture,
    unread_sentences,
)
from monitor.analysis.packets.wording import capture_rows, loss_sentence
from monitor.archive.diagnosis.capture_findings import findings_of
from tests.captures import ENCAPSULATIONS, OBSOLETE, SIMPLE, Record, behind, pcap_file, pcapng_file, records_of
from tests.fuzz.cases import cases, mutated

RECORDS = {name: records_of(name)[:60] for name in ("stalled-sender", "lossy-sender", "queue-ipv6-sender")}
MOST_UNPACKED_BYTES = 1 << 20
MOST_CASE_S = 5.0
"""Of processor time; a case takes some milliseconds."""

Writer = Callable[[list[Record], int, random.Random], bytes]
WRITERS: dict[str, Writer] = {
    "pcap": lambda records, link, chance: pcap_file(records, link, chance.choice("<>")),
    "pcapng": lambda records, link, chance: pcapng_file(records, (link, 189), order=chance.choice("<>")),
    "old pcapng": lambda records, link, chance: pcapng_file(records, (link,), OBSOLETE, chance.choice("<>")),
    "pcapng without stamps": lambda records, link, chance: pcapng_file(records, (link,), SIMPLE),
    "gzip": lambda records, link, chance: gzip.compress(pcap_file(records, link), 1),
}


def drawn(chance: random.Random) -> bytes:
    """A capture of one of the fixtures, in any form that is read, with mutations in its frames or in the file."""
    name = chance.choice(list(RECORDS))
    link, header = ENCAPSULATIONS[chance.choice(list(ENCAPSULATIONS))]
    records = RECORDS[name] if name == "queue-ipv6-sender" else behind(RECORDS[name], header)
    link = 1 if name == "queue-ipv6-sender" else link
    if chance.random() < 0.5:
        records = [record if chance.random() < 0.8 else mutated_record(record, chance) for record in records]
    data = WRITERS[chance.choice(list(WRITERS))](records, link, chance)
    return data if chance.random() < 0.4 else mutated(data, chance)


def mutated_record(record: Record, chance: random.Random) -> Record:
    frame = mutated(record.frame[: chance.choice((200, 60, 40))], chance)
    at_ns = record.at_ns if chance.random() < 0.7 else chance.randrange(2**32 * 10**9)
    return Record(at_ns, frame, chance.choice((record.wire_bytes, len(frame), 0, 2**32 - 1)), chance.choice((0, 0, 1)))


def parts(chance: random.Random) -> tuple[KeptPart, ...]:
    """As an agent may deliver them: none, or a start and stretches."""
    if chance.random() < 0.5:
        return ()
    start_ns = chance.choice((0, RECORDS["stalled-sender"][20].at_ns, 2**62))
    stretches = (KeptPart(1 << chance.randrange(20, 31), chance.randrange(1, 1 << 20), None) for _ in range(7))
    return (KeptPart(None, None, start_ns), *stretches)


def evaluated(data: bytes, chance: random.Random) -> str:
    """All that pages, command and worker derive from a capture."""
    unread: Counter[Unread] = Counter()
    try:
        connections = connections_of(read_capture(data, unread, MOST_UNPACKED_BYTES), unread)
    except CaptureError as error:
        return str(error)
    kept = parts(chance)
    findings = findings_of(connections, kept)
    msgspec.json.encode(findings)
    text = [*unread_sentences(unread), no_data_reason(unread)]
    text += [f"{label} {row}" for label, row in ([] if findings.figures is None else capture_rows(findings.figures))]
    return " ".join([*text, loss_sentence(lost_between(connections, connections, kept, ()), "a", "b")])


def test_a_mutated_capture_has_findings_or_an_error() -> None:
    for label, chance in cases("captures"):
        begun = time.process_time()
        data = drawn(chance)
        try:
            assert evaluated(data, chance)
        except Exception as error:
            error.add_note(label)
            raise
        assert time.process_time() - begun < MOST_CASE_S, label
