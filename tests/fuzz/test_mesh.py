"""A broken mesh.toml or limits.toml is accepted, or refused with the file and line; what is accepted can be stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from monitor.mesh.document.reader import MeshError, parse
from monitor.mesh.document.rules import private_address_warnings, refused_address_warnings
from probes.free_text import fault
from probes.site.limits.read import LimitsError, read_limits
from tests.fuzz.cases import cases, mutated

ROOT = Path(__file__).parents[2]
MESHES = [ROOT / "mesh.example.toml", *sorted((ROOT / "tests/fixtures/mesh/good").glob("*.toml"))]
LIMITS = ROOT / "limits.example.toml"
ODD_TEXTS = [
    b"\\u0000",
    b"\\n",
    b"\\u2028",
    b"\\u202e",
    "é".encode() * 300,
    b"\\uFEFF",
    b"\\t",
    b"x" * 9000,
    b"0x",
    b"%",
]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from (*texts(key), *texts(below))
    elif isinstance(value, list | tuple):
        for below in value:
            yield from texts(below)


def with_odd_text(content: bytes, chance) -> bytes:
    """The content with an odd text within a string, or broken anywhere."""
    quotes = [place for place, byte in enumerate(content) if byte == ord('"')]
    if chance.random() < 0.4 or not quotes:
        return mutated(content, chance)
    at = chance.choice(quotes) + 1
    return content[:at] + chance.choice(ODD_TEXTS) + content[at:]


def outcome(error, read, *arguments):
    """The file as it was read, and the lines of the reader's own error."""
    try:
        return read(*arguments), []
    except error as refused:
        return None, refused.lines


def test_a_broken_mesh_is_refused_with_a_sentence():
    accepted = 0
    contents = [file.read_bytes() for file in MESHES if file.stat().st_size < 20_000]
    for label, chance in cases("mesh"):
        content = with_odd_text(chance.choice(contents), chance)
        document, refused = outcome(MeshError, parse, content, "mesh.toml")
        assert all(line.startswith("mesh.toml:") and "\n" not in line for line in refused), label
        if document is None:
            continue
        accepted += 1
        assert private_address_warnings(document) is not None, label
        assert refused_address_warnings(document) is not None, label
        odd = [text for text in texts(msgspec.to_builtins(document, str_keys=True)) if fault(text) is not None]
        assert odd == [], label
    assert accepted


def test_broken_limits_are_refused_with_a_sentence(tmp_path):
    file, content, accepted = tmp_path / "limits.toml", LIMITS.read_bytes(), 0
    for label, chance in cases("limits"):
        file.write_bytes(with_odd_text(content, chance))
        limits, refused = outcome(LimitsError, read_limits, file)
        assert all(line.startswith(f"{file}:") and "\n" not in line for line in refused), label
        if limits is None:
            continue
        accepted += 1
        assert isinstance(limits.forbids_address("192.0.2.1"), str | None), label
    assert accepted
