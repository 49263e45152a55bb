"""docs/reference lists the keys read by the code, with a sentence for each."""

import pytest

from monitor.mesh.document import structure
from monitor.mesh.document.alert_rules import RULES, RuleSettings
from probes.site.limits.limits import Limits
from probes.toml.keys import keys_of, to_toml
from scripts import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_of_keys_is_up_to_date(name):
    page = (reference.FOLDER / name).read_text()

    assert page == reference.PAGES[name](), "run make reference"


@pytest.mark.parametrize("struct", [structure.file_struct, lambda: Limits])
def test_every_key_has_a_sentence(struct):
    keys = {
        (table.title, key.name): reference.meaning(table, key)
        for table in reference.tables_of(struct())
        for key in table.keys
    }

    assert len(keys) > 10
    assert [key for key, sentence in keys.items() if not sentence.endswith(".")] == []


def test_the_page_about_alerts_has_each_rule_with_its_keys():
    page = (reference.FOLDER.parent / "alert-rules.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name, rule in RULES.items():
        (row,) = (row for row in rows if f"`{name}`" in row.split("|")[1])
        for key in keys_of(rule).values():
            is_own = key.name not in RuleSettings.__struct_fields__
            cell = f"`{key.name}`" if key.default is None else f"`{key.name} = {to_toml(key.default)}`"
            assert not is_own or cell in row, (name, key)


def test_every_alert_rule_is_in_the_reference():
    headers = {table.header for table in reference.tables_of(structure.file_struct())}

    assert headers >= {f"[alerts.{name}]" for name in RULES}
