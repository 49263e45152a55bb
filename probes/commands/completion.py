"""`python -m probes completion bash`: print a script for tab completion, which starts no program."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from probes.commands import agent_program, catalogue
from probes.commands.own_command import INSTALLED_AS, is_installed

SHELLS = ("bash",)
# Django's options of every command, which would hide ours.
GENERAL = frozenset(
    ("--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color")
)

# Both scripts define the same function for Python, so that each may be loaded without the other.
SCRIPT = """\
# Tab completion of {title}. In ~/.bashrc: eval "$({title} completion bash)"
_soundings_complete() {{
    local first=$1 current="${{COMP_WORDS[COMP_CWORD]}}" key="" word candidates at
    for ((at = first; at < COMP_CWORD; at++)); do
        word="${{key:+$key }}${{COMP_WORDS[at]}}"
        if "$2" "$word" >/dev/null; then key="$word"; fi
    done
    candidates="$("$2" "$key")"
    COMPREPLY=($(compgen -W "$candidates" -- "$current"))
    if [ ${{#COMPREPLY[@]}} -eq 0 ]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
_soundings_python() {{
    if [ "${{COMP_WORDS[1]}}" = -m ] && [ "${{COMP_WORDS[2]}}" = probes ] && [ "$COMP_CWORD" -gt 2 ] \\
        && declare -F _soundings_words_probes >/dev/null; then
        _soundings_complete 3 _soundings_words_probes
    elif [[ "${{COMP_WORDS[1]}}" == *manage.py ]] && [ "$COMP_CWORD" -gt 1 ] \\
        && declare -F _soundings_words_manage >/dev/null; then
        _soundings_complete 2 _soundings_words_manage
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
    fi
}}
_soundings_words_{name}() {{
    case "$1" in
{cases}
        *) return 1 ;;
    esac
}}
_soundings_{name}() {{ _soundings_complete 1 _soundings_words_{name}; }}
complete -F _soundings_python python python3
{complete}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell; load the script with eval, as its first line says")


def run(_: argparse.Namespace) -> int:
    if is_installed():
        print(bash_script(INSTALLED_AS, "agent", [INSTALLED_AS], agent_program.parsers()), end="")
    else:
        print(bash_script("python -m probes", "probes", [], catalogue.parsers()), end="")
    return 0


def bash_script(title: str, name: str, programs: Sequence[str], parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The script; `title` is the program as typed, `programs` are installed names."""
    cases = "\n".join(
        f'        "{" ".join(key)}") echo "{" ".join(words)}" ;;' for key, words in words_of(parsers).items()
    )
    complete = f"complete -F _soundings_{name} {' '.join(programs)}\n" if programs else ""
    return SCRIPT.format(title=title, name=name, complete=complete, cases=cases)


def words_of(parsers: Mapping[str, argparse.ArgumentParser]) -> dict[tuple[str, ...], list[str]]:
    words: dict[tuple[str, ...], list[str]] = {(): sorted(parsers)}
    for name, parser in parsers.items():
        words.update(_words_below((name,), parser))
    return words


def _words_below(
    above: tuple[str, ...], parser: argparse.ArgumentParser
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    choices = [
        str(choice) for action in parser._actions if not action.option_strings for choice in action.choices or ()
    ]
    options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    yield above, [*choices, *sorted(options - GENERAL)]
    for action in subparsers:
        for name, subparser in action.choices.items():
            yield from _words_below((*above, name), subparser)
