"""The line numbers of `probes.toml.lines`. The oracle: every key and value in a generated document is unique, so a text
search gives its line."""

import string
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.toml import lines


def places(value, place=()):
    """Paths of keys and list indexes to every value."""
    yield place
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from places(inner, (*place, key))


def line_with(text, needle):
    numbers = [number for number, line in enumerate(text.split("\n"), 1) if needle in line]
    assert len(numbers) == 1, (needle, numbers)
    return numbers[0]


def test_each_key_has_its_line():
    text = "\n".join(
        [
            "# a comment with [brackets] and = signs",
            "first = 1",
            'second = """',
            "[not.a.table]",
            'nor = "a key"',
            '""" # after',
            "",
            "  [third]   # indented",
            "fourth.fifth = 1979-05-27 07:32:00",
            "'quoted.key' = 'C:\\path'",
            "sixth = [",
            "  101, # first",
            "",
            "  102, 103,",
            "  [ { seventh = 104.5 } ],",
            "]",
            "eighth = { ninth = 1, tenth.eleventh = '''",
            "x''', twelfth = 3 }",
        ]
    )

    line_of = lines.find_lines(text)

    third = {
        ("fourth",): 9, ("fourth", "fifth"): 9, ("quoted.key",): 10, ("sixth",): 11, ("sixth", 0): 12, ("sixth", 1): 14,
        ("sixth", 2): 14, ("sixth", 3): 15, ("sixth", 3, 0): 15, ("sixth", 3, 0, "seventh"): 15, ("eighth",): 17,
        ("eighth", "ninth"): 17, ("eighth", "tenth"): 17, ("eighth", "tenth", "eleventh"): 17,
        ("eighth", "twelfth"): 18,
    }  # fmt: skip
    assert line_of == {
        (): 1, ("first",): 2, ("second",): 3, ("third",): 8,
        **{("third", *place): line for place, line in third.items()},
    }  # fmt: skip


def test_lists_of_tables_may_be_interleaved():
    text = "[[a]]\nx=1\n[[a.b]]\ny=2\n[c]\nz=3\n[[a]]\nx=4\n[[a.b]]\ny=5\n[[a.b]]\ny=6\n"

    line_of = lines.find_lines(text)

    assert (line_of["a", 0], line_of["a", 1]) == (1, 7)
    assert [line_of["a", 1, "b", number] for number in (0, 1)] == [9, 11]
    assert [line_of["a", 1, "b", number, "y"] for number in (0, 1)] == [10, 12]
    assert line_of["a", 0, "b", 0, "y"] == 4


def test_windows_line_ends_count_once():
    line_of = lines.find_lines("a = 1\r\n\r\nb = 2\r\n")

    assert (line_of["a",], line_of["b",]) == (1, 3)


names = st.integers(0, 10**9).map(lambda number: f"k{number:010d}")
blanks = st.sampled_from(["", "\n", "\n\n", '# [x] = \'y\' """\n', "  # '''\n"])
scalars = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(["true", "1979-05-27T07:32:00Z", "1979-05-27 07:32:00.5", "07:32:00", "0x1F", "1e5", "-inf"]),
    st.text(string.ascii_letters + " #[]{}=,.'", max_size=8).map(lambda text: f'"{text}"'),
    st.text(string.ascii_letters + ' #[]{}=,."\\', max_size=8).map(lambda text: f"'{text}'"),
    st.text(string.ascii_letters + " #[]=\n", max_size=8).map(lambda text: f'"""{text}\\""""'),
    st.text(string.ascii_letters + " #[]=\n", max_size=8).map(lambda text: f"'''{text}'''"),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(st.tuples(blanks, inner), max_size=4).map(
        lambda items: "[" + "".join(f"{blank}{item},\n" for blank, item in items) + "]"
    ),
    max_leaves=5,
)


@st.composite
def documents(draw):
    """TOML with unique keys: pairs, dotted keys, tables, interleaved arrays of tables."""
    keys = iter(draw(st.lists(names, min_size=40, max_size=40, unique=True)))
    lists = [next(keys) for _ in range(2)]
    text = ""
    for block in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["pairs", "table", "list", "nested"])) if block else "pairs"
        if kind == "table":
            text += draw(blanks) + f"[{next(keys)}]\n"
        elif kind != "pairs":
            text += draw(blanks) + f"[[{draw(st.sampled_from(lists))}]]\n"
        if kind == "nested":
            text += f"[{text.rstrip().rsplit('[[', 1)[1].rstrip(']')}.{next(keys)}]\n"
        for _ in range(draw(st.integers(0, 3))):
            dotted = f".{next(keys)}" if draw(st.booleans()) else ""
            text += draw(blanks) + f"{next(keys)}{dotted} = {draw(values)} # end\n"
    return text


@given(documents())
def test_every_key_of_any_document_has_its_line(text):
    line_of = lines.find_lines(text)

    assert set(line_of) == set(places(tomllib.loads(text)))
    headers = [line for line in text.split("\n") if line.startswith("[[")]
    for place, line in line_of.items():
        if place and isinstance(place[-1], str) and f"[[{place[-1]}]]" not in headers:
            assert line == line_with(text, place[-1])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a = 1\nb = = 2\n", 2, "column 5"),
        ("a = 1\nb =\n", 2, "write text in double quotes"),
        ("a = 1\na = 2\n", 2, "a key is set twice"),
        ("a = [1,\n2\n", 3, "the end of the file"),
    ],
)
def test_invalid_toml_is_reported_with_its_line(text, line, message):
    with pytest.raises(lines.TomlSyntaxError, match=message) as raised:
        lines.parse(text)

    assert raised.value.line == line


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9" * 5000, "this number is too long"),
        ("1_0" * 2500, "this number is too long"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ("{a=" * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ],
    ids=["digits", "digits_apart", "lists", "tables"],
)
def test_values_refused_by_python_are_reported_with_their_line(value, message):
    with pytest.raises(lines.TomlSyntaxError, match=message) as refused:
        lines.parse(f"first = [1, [2]]\nsecond = {value}\nthird = 12345\n")

    assert refused.value.line == 2
