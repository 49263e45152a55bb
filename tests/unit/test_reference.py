"""docs/reference is what the code reads, and has a sentence for each key."""

import pytest

from scripts import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_of_keys_is_up_to_date(name):
    page = (reference.FOLDER / name).read_text()

    assert page == reference.PAGES[name](), "run make reference"


@pytest.mark.parametrize("tables", [reference.mesh_tables, reference.limits_tables])
def test_every_key_has_a_sentence(tables):
    keys = {(table.header, name): key.sentence for table in tables() for name, key in table.keys.items()}

    assert len(keys) > 10
    assert [key for key, sentence in keys.items() if not sentence.endswith(".")] == []


def test_the_page_about_alerts_has_each_rule_with_its_keys():
    rows = [line for line in (reference.FOLDER.parent / "alerts.md").read_text().splitlines() if line.startswith("| `")]
    for name, rule in reference.alert_rules.RULES.items():
        (row,) = (row for row in rows if f"`{name}`" in row.split("|")[1])
        for key, of in reference.alert_rules.keys_of(rule):
            default = str(of.default).lower() if of.limits is None else f"{of.default:g}"
            assert key == "enabled" or f"`{key} = {default}`" in row, (name, key)


def test_every_alert_rule_is_in_the_reference():
    headers = {table.header for table in reference.mesh_tables()}

    assert headers >= {f"alerts.{name}" for name in reference.alert_rules.RULES}
