"""Tab completion, by a bash that has loaded the scripts."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def scripts():
    """The scripts of both programs."""
    return "\n".join(
        subprocess.run(
            [sys.executable, *program, "completion", "bash"], capture_output=True, text=True, check=True
        ).stdout
        for program in (["-m", "probes"], ["manage.py"])
    )


def completed(scripts, function, *words, folder="."):
    """The completions of the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", f"{scripts}\n{ask}"], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stderr == ""
    return set(done.stdout.split())


PROBES = ("python", "-m", "probes")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((*PROBES, "pi"), {"ping"}),
        ((*PROBES, "lab", "se"), {"set"}),
        ((*PROBES, "lab", "set", "cern", "slac", "--lo"), {"--loss"}),
        ((*PROBES, "site", "--data", "x", "st"), {"status"}),
        ((*PROBES, "ping", "--js"), {"--json"}),
        (("python", "manage.py", "arch"), {"archive"}),
        (("python", "./manage.py", "archive", "b"), {"backup"}),
        (("python", "manage.py", "archive", "backup", "--o"), {"--out"}),
        (("python", "manage.py", "site", "li"), {"list"}),
        (("python", "manage.py", "user", "add", "--ver"), set()),
        (("python", "manage.py", "flu"), set()),
    ],
)
def test_bash_completes_commands_and_options(scripts, words, expected):
    assert completed(scripts, "_soundings_python", *words, folder="/") == expected


@pytest.mark.parametrize(
    ("function", "words", "expected"),
    [("_soundings_probes", ("soundings-agent", "la"), {"lab"}), ("_soundings_manage", ("soundings", "use"), {"user"})],
)
def test_bash_completes_programs_by_their_own_names(scripts, function, words, expected):
    assert completed(scripts, function, *words) == expected


def test_other_programs_of_python_and_arguments_complete_by_file(scripts, tmp_path):
    (tmp_path / "mesh.toml").touch()

    assert completed(scripts, "_soundings_python", "python", "me", folder=tmp_path) == {"mesh.toml"}
    arguments = ("python", "manage.py", "mesh", "check", "me")
    assert completed(scripts, "_soundings_python", *arguments, folder=tmp_path) == {"mesh.toml"}
