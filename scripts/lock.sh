#!/usr/bin/env bash
# Pins requirements*.in with hashes for every Python from 3.11; the files name no package index. usage: lock.sh BIN
set -euo pipefail
bin=$1
"$bin/python" -m pip install --quiet --disable-pip-version-check uv
for name in requirements requirements-dev; do
    "$bin/uv" pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate --quiet "$name.in" -o "$name.txt"
done
