"""A direct link between two sites of a lab: packets go over the veth pair, those to other sites through the relay."""

from __future__ import annotations

from pathlib import Path

from tests.lab import RunningLab

SITE = """
[[site]]
name = "{0}"
title = "{0}"
latitude_deg = 46.2
longitude_deg = 6.1
country = "CH"
region = "Europe"
"""
SCENARIO = f"""
title = "A direct link"
{"".join(SITE.format(name) for name in ("here", "there", "far"))}
[[path]]
between = ["here", "there"]
link = "direct"
mtu_bytes = 9000
"""


def test_a_direct_link_bypasses_the_relay_and_has_its_mtu(namespaces_required: None, tmp_path: Path) -> None:
    file = tmp_path / "direct.toml"
    file.write_text(SCENARIO)

    with RunningLab(str(file)) as lab:
        addresses = lab.status().lab.sites["there"].addresses
        for address in addresses:
            done = lab.exec("here", "ping", "-n", "-c", "2", "-i", "0.2", "-M", "do", "-s", "8900", address)
            assert ", 0% packet loss" in done.stdout, done.stdout + done.stderr
        other = lab.exec("here", "ping", "-n", "-c", "2", "-i", "0.2", lab.address("far"))
        refused = lab.command("set", "here-there", "--loss", "0.5")
        counts = {pair: lab.counts(*pair).received for pair in (("here", "there"), ("here", "far"))}

    assert len(addresses) == 2
    assert ", 0% packet loss" in other.stdout
    assert counts == {("here", "there"): 0, ("here", "far"): 2}
    assert refused.returncode == 1
    assert "direct link" in refused.stderr
