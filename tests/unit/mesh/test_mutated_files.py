"""4,500 mesh and limits files, each a valid or invalid file with a few random mutations: accepted, or refused with a
message.

Any exception other than `MeshError` and `LimitsError` would reach the file's author as a traceback. The mutations
follow from a seed, so that a failure can be reproduced; it names the seed and the number of the file.
"""

import random
import re
from pathlib import Path

import pytest

from monitor.mesh.document import expansion
from monitor.mesh.document.reader import MeshError, parse
from probes.site.limits.read import LimitsError, read_limits

ROOT = Path(__file__).parents[3]
SEED = 15
FIXTURES = ROOT / "tests/fixtures/mesh"
GOOD = [ROOT / "mesh.example.toml", *sorted((FIXTURES / "good").glob("*.toml"))]
BAD = sorted((FIXTURES / "bad").glob("*.toml"))
LIMITS = ROOT / "limits.example.toml"
MUTATED_MESHES = 3000
MUTATED_LIMITS = 1500
PARTS = 10
# Values that commonly break parsers, numeric types, addresses or databases.
VALUES = [
    *(
        "0",
        "-1",
        "-0.0",
        "1e400",
        "nan",
        "-inf",
        "9" * 400,
        "9" * 5000,
        "1_0" * 2000,
        "0x" + "f" * 40,
        "18446744073709551616",
        "true",
        "1979-05-27",
    ),
    *(
        "0001-01-01T00:00:00Z",
        "07:32:00",
        "[]",
        "{}",
        "[[[]]]",
        "[" * 90 + "]" * 90,
        "[" * 3000 + "]" * 3000,
        "{a = {a = 1}}",
        '""',
        "''",
    ),
    *('"\\u0000"', '"\\ud800"', '"%s %(x)s {0}"', '"ſ"', '"²"', '"::"', '"0/0"', '"1.2.3.4/33"', '"fe80::1%eth0"'),
    *(
        '"' + "x" * 10_000 + '"',
        '"a.b"',
        '"../../x"',
        "[1, 'a', 2.0]",
        '[""]',
        '["*"]',
        '"24:00-24:00"',
        '"99:99-00:00"',
    ),
]
PIECES = [*"\0\r\n\t\"'[]{}=,.#\\", "[[", "]]", '"""', "\ufeff", "\u2028", "é", "[site]\n", "[[site]]\n", "a.b.c = 1\n"]


def mutated(content, random):
    """The content with one to four mutations."""
    for _ in range(random.randint(1, 4)):
        content = random.choice(MUTATIONS)(content, random)
    return content


def spoil_value(content, random):
    values = list(re.finditer(r"= *(.+)$", content, re.MULTILINE))
    if not values:
        return content
    value = random.choice(values)
    return content[: value.start(1)] + random.choice(VALUES) + content[value.end(1) :]


def insert_piece(content, random):
    at = random.randint(0, len(content))
    return content[:at] + random.choice(PIECES) + content[at:]


def cut(content, random):
    at = random.randint(0, len(content))
    return content[:at] + content[at + random.randint(1, 40) :]


def repeat(content, random):
    at = random.randint(0, len(content))
    return content[:at] + content[at : at + random.randint(1, 200)] * 2 + content[at:]


def swap_lines(content, random):
    lines = content.split("\n")
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


def drop_line(content, random):
    lines = content.split("\n")
    del lines[random.randrange(len(lines))]
    return "\n".join(lines) or "\n"


MUTATIONS = [spoil_value, spoil_value, insert_piece, cut, repeat, swap_lines, drop_line]


def as_bytes(content, random):
    """The text as UTF-8; in 10% of the files a byte is replaced."""
    data = bytearray(content.encode("utf-8", "surrogatepass"))
    if data and random.random() < 0.1:
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def refusals(check, content, number):
    """The errors of a file, line by line; empty when it is accepted."""
    try:
        check(content)
    except (MeshError, LimitsError) as refused:
        return str(refused).split("\n")
    except Exception as error:
        raise AssertionError(f"number {number}: {content!r}") from error
    return []


@pytest.mark.parametrize("part", range(PARTS))
def test_a_mutated_mesh_is_accepted_or_refused_with_lines(part):
    def check(content):
        expansion.measurements(parse(content, "mesh.toml"))

    for number in range(part, MUTATED_MESHES, PARTS):
        chance = random.Random(f"{SEED} mesh {number}")
        path = chance.choice(chance.choice((GOOD, BAD)))
        content = as_bytes(mutated(path.read_text(), chance), chance)
        assert all(line.startswith("mesh.toml:") for line in refusals(check, content, number)), (path, number)


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_limits_are_accepted_or_refused_with_lines(part, tmp_path):
    file = tmp_path / "limits.toml"

    def check(content):
        file.write_bytes(content)
        read_limits(file)

    for number in range(part, MUTATED_LIMITS, PARTS):
        chance = random.Random(f"{SEED} limits {number}")
        content = as_bytes(mutated(LIMITS.read_text(), chance), chance)
        assert all(line.startswith(str(file)) for line in refusals(check, content, number)), number
