"""Texts from outside are printable and on one line: those of people are refused with their place, others cleaned."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from monitor.archive.ingest.arrivals import JSON, MESSAGE_PACK, read_result
from monitor.mesh.document.reader import MeshError, parse
from probes.contract import ProbeError
from probes.free_text import LONGEST, cleaned, cleaned_tree, fault

MESH = (Path(__file__).parents[2] / "mesh.example.toml").read_text()
BAD = ["\0", "\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\ufeff"]


@pytest.mark.parametrize("character", BAD)
@pytest.mark.parametrize("key", ["name", "title", "country", "address"])
def test_an_unprintable_text_is_refused_with_its_line(character, key):
    escaped = f"\\u{ord(character):04X}"
    broken, count = re.subn(rf'^({key} = "\w)', lambda found: found[1] + escaped, MESH, count=1, flags=re.MULTILINE)
    assert count
    line = broken[: broken.index(escaped)].count("\n") + 1

    with pytest.raises(MeshError) as raised:
        parse(broken.encode(), "mesh.toml")

    assert any(text.startswith(f"mesh.toml:{line}: ") for text in raised.value.lines), raised.value.lines
    assert f"U+{ord(character):04X}" in str(raised.value)


def test_a_text_in_a_list_is_refused_too():
    broken = f'{MESH}\n[[group]]\nname = "x"\ntests = ["a\\n"]\n'

    with pytest.raises(MeshError):
        parse(broken.encode(), "mesh.toml")


def test_a_long_text_is_refused():
    assert fault("x" * LONGEST) is None
    assert f"{LONGEST + 1:,}" in fault("x" * (LONGEST + 1))


@pytest.mark.parametrize("text", ["GÉANT – Zürich", "中文", "عربى", "a\u00a0b", "🚀", "e\u0301"])
def test_texts_of_all_languages_are_good(text):
    assert fault(text) is None
    assert cleaned(text) == text


@pytest.mark.parametrize("character", [*BAD, "\ud800"])
def test_a_cleaned_text_is_good(character):
    text = cleaned(f"eth0{character}up")

    assert fault(text) is None
    assert text.startswith("eth0")
    assert text.endswith("up")
    assert fault(cleaned(character * 9999)) is None


def test_all_texts_of_a_message_are_cleaned():
    assert cleaned_tree({"a\0": ["b\n c", 1, None, {"d": "\u2028"}]}) == {"a\ufffd": ["b c", 1, None, {"d": ""}]}


def test_the_message_of_an_error_is_cleaned():
    assert str(ProbeError("iperf3: error\r\n - \udcff\x1b[0m")) == "iperf3: error - \ufffd\ufffd[0m"


READING = {
    "kind": "interface", "target": "slac", "address": "192.0.2.1", "family": 4, "started_at": "2026-11-28T12:00:00Z",
    "outcome": "measured", "interval_s": 60.0, "in_bps": 1e6, "out_bps": 1e6,
}  # fmt: skip


def delivered(result):
    return {"sequence": 7, "path_id": 1, "test": "snmp", "during_test": False, "result": READING | result}


@pytest.mark.parametrize("how", [JSON, MESSAGE_PACK], ids=["json", "msgpack"])
@pytest.mark.parametrize("name", ["ge-0/0/0\0\0", "\0", "a\0b\u2028c"])
def test_no_reading_is_refused_for_a_name(how, name):
    encode = msgspec.json.encode if how is JSON else msgspec.msgpack.encode

    read, contradiction = read_result(how, msgspec.Raw(encode(delivered({"interface": name, "alias": name}))))

    assert (read.sequence, contradiction) == (7, None)
    assert fault(read.result.interface) is None


def test_half_a_character_alone_refuses_no_reading():
    message = json.dumps(delivered({"alias": "a\ud800b"})).encode()

    assert read_result(JSON, msgspec.Raw(message))[0].result.alias == "a\ufffdb"


def test_a_wrong_figure_is_refused_still():
    with pytest.raises(msgspec.ValidationError, match="speed_bps"):
        read_result(JSON, msgspec.Raw(json.dumps(delivered({"alias": "a\0", "speed_bps": -1})).encode()))
