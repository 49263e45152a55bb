#!/usr/bin/env bash
# Makes the virtual environment and installs the pinned dependencies into it. usage: setup.sh VENV
set -euo pipefail
venv=$1
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: $python is $("$python" --version 2>&1 || echo missing); Soundings needs Python 3.11 or later." >&2
    echo "       Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or say PYTHON=/path/to/python3.12 make setup" >&2
    exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
    echo "setup: making the virtual environment $venv (a few seconds)"
    if ! "$python" -m venv "$venv" 2>/dev/null; then
        rm -rf "$venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
            "$python" -m venv "$venv"
        else
            echo "setup: python's venv module is missing; run: sudo apt-get install python3-venv" >&2
            exit 1
        fi
    fi
fi
# Prints a line for every twenty packages that pip takes up, and one when it unpacks them.
progress() {
    local taken=0 line
    while IFS= read -r line; do
        case $line in
            Collecting\ *)
                taken=$((taken + 1))
                [ $((taken % 20)) != 0 ] || echo "setup: $taken of $packages packages fetched" ;;
            Installing\ collected\ packages*) echo "setup: unpacking them (usually half a minute to two minutes)" ;;
        esac
    done
}
packages=$(grep -c '==' requirements-dev.txt)
echo "setup: fetching the $packages pinned packages (usually one to three minutes)"
# Python compiles a module at its first import: compiling all of them takes a minute, and most are never imported.
"$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check --no-compile --require-hashes \
    -r requirements-dev.txt | progress
touch "$venv/.installed"
echo "setup: done"
