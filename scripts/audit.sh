#!/usr/bin/env bash
# Makes an environment for pip-audit beside the project's packages, and looks the pinned ones up. usage: audit.sh VENV
set -euo pipefail
venv=$1
if [ ! -e "$venv/audit/.installed" ] || [ requirements-audit.txt -nt "$venv/audit/.installed" ]; then
    "$venv/bin/python" -m venv "$venv/audit"
    "$venv/audit/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.txt
    touch "$venv/audit/.installed"
fi
exec "$venv/audit/bin/python" scripts/audit.py "$venv" requirements-dev.txt requirements-audit.txt packaging/requirements-agent.txt packaging/requirements-agent-snmp.txt packaging/requirements-centre-cold.txt
