"""Files decoded by `probes.toml.tables` with structs of the test: values, problems with their lines, settings."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field

from probes.toml.keys import DISTINCT, NOT_EMPTY, Text, check, meaning, must_be
from probes.toml.tables import FileError, parse
from tests.facts import lacks


class Lamp(Struct, frozen=True, kw_only=True, tag_field="kind"):
    name: Annotated[Text, meaning("Name.", '"…"')]


class Bulb(Lamp, frozen=True, kw_only=True, tag="bulb"):
    power_w: Annotated[float, Meta(gt=0, le=100), meaning("Power.", "60")]


class Strip(Lamp, frozen=True, kw_only=True, tag="strip"):
    length_m: Annotated[int, Meta(ge=1)] = 5


class Switch(Struct, frozen=True, kw_only=True):
    mode: Literal["push", "turn"] = "push"
    token: Annotated[str, must_be("letters", "[a-z]*", is_secret=True)] = ""
    of: Annotated[tuple[str, ...], NOT_EMPTY, DISTINCT] = field(name="for", default=())
    dimmed_ratio: Annotated[float, Meta(ge=0, le=1)] = 1
    least_ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5


def colour_fault(text):
    return None if text == "red" else 'is not a colour; write "red"'


class Desk(Struct, frozen=True, kw_only=True):
    lamps: tuple[Bulb | Strip, ...] = field(name="lamp", default=())


class Room(Struct, frozen=True, kw_only=True):
    lamps: Annotated[tuple[Bulb | Strip, ...], meaning("", "[[lamp]]")] = field(name="lamp")
    desks: tuple[Desk, ...] = field(name="desk", default=())
    switch: Switch | None = None
    colour: Annotated[str, check(colour_fault)] | None = None


def decoded(text):
    return parse(text.encode(), "room.toml", Room, FileError)


def problems(text):
    table = decoded(text)
    with pytest.raises(FileError) as raised:
        table.raise_problems()
    return [line.removeprefix("room.toml:") for line in raised.value.lines]


BULB = '[[lamp]]\nkind = "bulb"\nname = "a"\npower_w = 60\n'


def test_a_valid_file_becomes_its_struct():
    table = decoded(BULB + '[[lamp]]\nkind = "strip"\nname = "b"\n[switch]\nfor = ["a", "b"]\n')

    table.raise_problems()

    assert table.entry() == Room(
        lamps=(Bulb(name="a", power_w=60.0), Strip(name="b", length_m=5)), switch=Switch(of=("a", "b"))
    )


def test_settings_are_the_keys_that_are_set():
    settings = decoded(BULB + '[switch]\nfor = ["a"]\n').settings()

    assert settings == {
        "lamp": [{"kind": "bulb", "name": "a", "power_w": 60.0}],
        "switch": {"for": ["a"]},
    }


def test_valid_values_beside_invalid_values_are_returned():
    table = decoded(BULB.replace("60", "0") + '[switch]\nmode = "turn"\nfor = ["a", 1, "a", "b"]\n')

    (lamp,), switch = table.tables("lamp"), table.table("switch")

    assert (lamp.values, lamp.get("power_w"), lamp.entry()) == ({"kind": "bulb", "name": "a"}, None, None)
    assert (switch.get("mode"), switch.get("token"), switch.elements["for"]) == ("turn", "", {0: "a", 3: "b"})
    assert table.entry() is None


@pytest.mark.parametrize(
    ("text", "line", "facts"),
    [
        ("", 1, ["[[lamp]]", "missing", "add [[lamp]]"]),
        ("lamp = 1\n", 1, ["lamp", "a table for each", "[[lamp]]", "not 1\n"]),
        ("lamp = [1]\n", 1, ["lamp", "tables", "head each", "[[lamp]]"]),
        (BULB + "[switch.x]\n", 5, ["[switch]:", "unknown table [switch.x]", "mode, token, for, "]),
        (BULB + 'colour = "blue"\n', 5, ['lamp "a":', 'unknown key "colour"', "kind, name, power_w\n"]),
        ('colour = "blue"\n' + BULB, 1, ['colour = "blue"', "not", 'write "red"']),
        (BULB.replace("60", "0"), 4, ['lamp "a": power_w', "number", "more than 0 ", "at most 100,", "not 0\n"]),
        (
            BULB.replace("60", '"60"'),
            4,
            ['lamp "a": power_w', "number", "more than 0 ", "at most 100,", 'not the string "60"'],
        ),
        (BULB.replace('"a"', '""'), 3, ["lamp: name", "non-empty string", 'not ""']),
        (BULB.replace("bulb", "candle"), 2, ['lamp "a": kind', '"bulb" or "strip"', 'not "candle"']),
        (BULB.replace('kind = "bulb"\n', ""), 1, ['lamp "a": kind', "missing", 'kind = "bulb" or "strip"']),
        (BULB + '[switch]\nfor = []\n', 6, ["[switch]: for", "non-empty list of strings", "not []"]),
        (BULB + '[switch]\nfor = ["a",\n"a"]\n', 7, ["[switch]: for:", '"a"', "twice", "remove one"]),
        (BULB + '[switch]\nfor = ["a",\n2]\n', 7, ["[switch]: for:", "each", "a string", "not 2\n"]),
    ],
)  # fmt: skip
def test_a_problem_has_its_line_and_its_fix(text, line, facts):
    [problem] = problems(text)

    place, _, message = problem.partition(": ")
    assert place == str(line)
    assert message.startswith(facts[0])
    assert lacks(f"{message}\n", *facts) == []


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("2", "not 2; for 2% write 0.02"),
        ("1.5", "not 1.5; for 1.5% write 0.015"),
        ("99.99999", "not 99.99999; for 99.99999% write 0.9999999"),
        ("55.0", "not 55; for 55% write 0.55"),
        ("100.5", "not 100.5"),
        ("-2", "not -2"),
        ("inf", "not inf"),
        ("true", "not true"),
    ],
)
def test_a_percentage_for_a_ratio_has_the_ratio(value, hint):
    dimmed, least = problems(BULB + f"[switch]\ndimmed_ratio = {value}\nleast_ratio = {value}\n")

    assert dimmed == f"6: [switch]: dimmed_ratio must be a number from 0 to 1, {hint}"
    assert least == f"7: [switch]: least_ratio must be a number of more than 0 and less than 1, {hint}"


def test_a_suggested_ratio_is_within_its_bounds():
    dimmed, least = problems(BULB + "[switch]\ndimmed_ratio = 100\nleast_ratio = 100\n")

    assert dimmed.endswith("not 100; for 100% write 1")
    assert least.endswith("not 100")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BULB.replace("[[lamp]]", "[lamp]"), ["1: [lamp] is one table; write [[lamp]]"]),
        (2 * BULB.replace("[[lamp]]", "[lamp]"), [f"{line}: [lamp] is one table; write [[lamp]]" for line in (1, 5)]),
        (BULB.replace("[[lamp]]", " [ lamp ] # dim") + BULB, ["1: [lamp] is one table; write [[lamp]]"]),
        (BULB + "\n" + BULB.replace("[[lamp]]", "[lamp]"), ["6: [lamp] is one table; write [[lamp]]"]),
        (BULB + "[[desk]]\n[desk.lamp]\n", ["6: [[desk]]: [desk.lamp] is one table; write [[desk.lamp]]"]),
        (
            BULB + "[[desk]]\n" + 2 * "[desk.lamp]\n",
            [f"{line}: [desk.lamp] is one table; write [[desk.lamp]]" for line in (6, 7)],
        ),
    ],
)
def test_a_list_of_tables_in_single_brackets_is_reported_at_its_lines(text, expected):
    with pytest.raises(FileError) as raised:
        decoded(text).raise_problems()

    assert raised.value.lines == [f"room.toml:{line}" for line in expected]


def test_a_single_table_twice_is_not_a_list():
    with pytest.raises(FileError) as raised:
        decoded(BULB + "[switch]\n[switch]\n")

    (line,) = raised.value.lines
    assert lacks(line, "room.toml:6: ", "not valid TOML", "twice") == []


def test_a_problem_with_a_secret_does_not_repeat_it():
    assert problems(BULB + '[switch]\ntoken = "s3cret"\n') == ["6: [switch]: token must be letters"]


def test_problems_of_all_tables_are_in_the_order_of_lines():
    text = 'colour = 1\n[[lamp]]\nkind = "strip"\nlength_m = 0.5\n' + BULB.replace("60", "0")

    assert [problem.partition(":")[0] for problem in problems(text)] == ["1", "2", "4", "8"]


def test_a_misspelt_key_is_not_missing_as_well():
    (problem,) = problems(BULB.replace("power_w", "powr_w"))

    assert problem.startswith('4: lamp "a": ')
    assert lacks(problem, 'unknown key "powr_w"', 'did you mean "power_w"?') == []


def test_an_unknown_key_is_reported_before_a_missing_key():
    unknown, missing = problems(BULB.replace("power_w", "colour"))

    assert unknown.startswith('4: lamp "a": ')
    assert 'unknown key "colour"' in unknown
    assert missing.startswith('1: lamp "a": power_w ')
    assert lacks(f"{missing}\n", "missing", "power_w = 60\n") == []


def test_a_callers_problem_is_reported_at_its_key_or_element():
    table = decoded(BULB + '[switch]\nfor = ["a",\n"b"]\n')
    switch = table.table("switch")
    switch.problem("b is dark", "for", 1)
    switch.problem("no mode", "mode")

    with pytest.raises(FileError) as raised:
        table.raise_problems()

    assert raised.value.lines == ["room.toml:5: [switch]: no mode", "room.toml:7: [switch]: b is dark"]
    assert (switch.line_of("for"), switch.line_of("mode"), switch.entry()) == (6, 5, None)


@pytest.mark.parametrize(("content", "line", "fact"), [(b"a = 1\n\xff", 2, "not UTF-8"), (b"a =", 1, "not valid TOML")])
def test_a_file_of_invalid_utf_8_or_toml_is_reported(content, line, fact):
    with pytest.raises(FileError) as raised:
        parse(content, "room.toml", Room, FileError)

    assert str(raised.value).startswith(f"room.toml:{line}: ")
    assert fact in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_of_utf_16_is_reported_as_such(encoding):
    with pytest.raises(FileError) as raised:
        parse(BULB.encode(encoding), "room.toml", Room, FileError)

    (line,) = raised.value.lines
    assert lacks(line, "room.toml:1: ", "UTF-16", "save", "UTF-8") == []


def test_a_byte_order_mark_is_no_part_of_a_utf_8_file():
    marked = b"\xef\xbb\xbf"

    assert parse(marked + BULB.encode(), "room.toml", Room, FileError).entry() == decoded(BULB).entry()
    with pytest.raises(FileError, match=r"^room\.toml:2: this is not UTF-8"):
        parse(marked + b"#\n\xff\n#", "room.toml", Room, FileError)
    with pytest.raises(FileError, match=r"^room\.toml:1: this is not valid TOML, at column 5"):
        parse(marked + b"a = =\n", "room.toml", Room, FileError)
