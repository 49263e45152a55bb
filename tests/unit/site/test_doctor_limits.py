"""`site doctor` fails where the limits allow no target, with the line to change; one of several may be meant."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from probes.site.doctor.check_network import check_limits
from probes.site.limits.read import read_limits

PRIVATE = [("10.0.0.10", 4), ("10.0.0.11", 4)]
PUBLIC = [("192.0.2.10", 4)]


def result(tmp_path, names, text=None):
    file = None
    if text is not None:
        file = tmp_path / "limits.toml"
        file.write_text(text)
    setup = SimpleNamespace(limits=read_limits(file), limits_file=file, data=tmp_path, names=lambda: names)
    (found,) = check_limits(setup)
    return found


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (None, "limits.toml (write it)", '"10.0.0.10/31"'),
        ("# ours\n", "limits.toml:1", '"10.0.0.10/31"'),
        ('# ours\n[networks]\nallowed = ["0.0.0.0/0"]\n', "limits.toml:3", '"10.0.0.10/31"'),
        ('[networks]\n\nforbidden = ["10.0.0.0/24"]\n', "limits.toml:3", "remove the network"),
    ],
)
def test_no_permitted_target_is_a_failure(tmp_path, text, place, words):
    found = result(tmp_path, PRIVATE, text)

    assert found.detail.startswith("0 of 2 targets may be measured")
    assert place in found.fix.replace(f"{tmp_path}/", "")
    assert words in found.fix


def test_the_remedy_permits_the_targets(tmp_path):
    assert result(tmp_path, PRIVATE, '[networks]\nallowed = ["0.0.0.0/0", "::/0", "10.0.0.0/24"]\n').is_good


def test_the_remedy_names_a_network_around_all_targets(tmp_path):
    names = [(f"10.77.{number}.1", 4) for number in range(1, 6)]

    fix = result(tmp_path, names).fix

    assert '"10.77.0.0/21"' in fix
    assert result(tmp_path, names, '[networks]\nallowed = ["0.0.0.0/0", "::/0", "10.77.0.0/21"]\n').is_good


def test_the_remedy_opens_targets_in_a_network_of_the_sites_own(tmp_path):
    own = 'own = ["192.0.2.0/28", "192.0.2.64/28"]\n'
    names = [("192.0.2.5", 4), ("192.0.2.70", 4), ("10.0.0.10", 4), ("10.0.0.11", 4)]

    fix = result(tmp_path, names, f"[networks]\n{own}").fix

    allowed = fix.partition(": add ")[2].partition(", or narrower")[0]
    assert allowed == '"10.0.0.10/31", "192.0.2.5/32", "192.0.2.70/32"'
    assert result(tmp_path, names, f'[networks]\nallowed = ["0.0.0.0/0", {allowed}]\n{own}').is_good
    limits = read_limits(tmp_path / "limits.toml")
    assert [limits.forbids_address(address) for address, _ in names] == [None] * 4


@pytest.mark.parametrize("names", [[], PUBLIC, [*PUBLIC, *PRIVATE]])
def test_a_permitted_target_beside_others_is_none(tmp_path, names):
    assert result(tmp_path, names).is_good
