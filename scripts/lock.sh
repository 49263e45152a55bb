#!/usr/bin/env bash
# Pins each .in file with hashes for every Python from 3.11; the files name no package index. usage: lock.sh BIN
set -euo pipefail
bin=$1
"$bin/python" -m pip install --quiet --disable-pip-version-check uv
compile() {
    "$bin/uv" pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate --quiet "$@"
}
for name in requirements requirements-dev requirements-audit; do
    compile "$name.in" -o "$name.txt"
done
# An agent runs what was tested with the rest.
compile --constraint requirements.txt packaging/requirements-agent.in -o packaging/requirements-agent.txt
compile --constraint requirements-dev.txt packaging/requirements-agent-snmp.in -o packaging/requirements-agent-snmp.txt
compile --constraint requirements-dev.txt packaging/requirements-centre-cold.in -o packaging/requirements-centre-cold.txt
