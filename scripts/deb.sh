#!/usr/bin/env bash
# Builds soundings-agent_*.deb for the release on which it runs, with its Python: an environment below /opt, a systemd
# unit, limits in /etc/soundings. usage: deb.sh WHEEL DIR, with the agent's wheel of `make dist`; needs python3-venv.
set -euo pipefail
wheel=$(realpath "$1")
folder=$(mkdir -p "$2" && realpath "$2")
top=$(realpath "$(dirname "$0")/..")
python=/usr/bin/python3
home=opt/soundings-agent

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
. /etc/os-release
version=$(basename "$wheel" | cut -d- -f2)+deb${VERSION_ID}
architecture=$(dpkg --print-architecture)
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')

echo "deb: installing the agent's packages for Python 3.$minor"
"$python" -m venv "$tree/$home"
pip() { "$tree/$home/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
pip install --no-compile --require-hashes --requirement "$top/packaging/requirements-agent.txt"
pip install --no-compile --no-index --no-deps "$wheel"
sh "$top/scripts/slim-environment.sh" "$tree/$home"
find "$tree/$home/bin" -mindepth 1 ! -name 'python*' ! -name soundings-agent -delete
find "$tree/$home" -name __pycache__ -type d -exec rm -rf {} +
sed -i "s#$tree/#/#g" "$tree/$home/bin/soundings-agent" "$tree/$home/pyvenv.cfg"
# As the package's own files, so that nothing is compiled at the site, where the service may not write here.
"$python" -m compileall -q -s "$tree" -p / --invalidation-mode unchecked-hash "$tree/$home/lib"

install -d "$tree/usr/bin" "$tree/etc/soundings" "$tree/usr/share/doc/soundings-agent" "$tree/DEBIAN" \
    "$tree/lib/systemd/system" "$tree/usr/share/bash-completion/completions"
ln -s /$home/bin/soundings-agent "$tree/usr/bin/soundings-agent"
install -m 644 "$top/packaging/soundings-agent.service" "$tree/lib/systemd/system/"
install -m 644 "$top/packaging/deb/limits.toml" "$tree/etc/soundings/"
install -m 644 "$top/LICENSE" "$tree/usr/share/doc/soundings-agent/copyright"
"$tree/$home/bin/python" -c 'import sys; from probes.commands.agent_program import main; sys.exit(main(["completion", "bash"]))' \
    >"$tree/usr/share/bash-completion/completions/soundings-agent"

for script in postinst prerm postrm; do install -m 755 "$top/packaging/deb/$script" "$tree/DEBIAN/"; done
echo /etc/soundings/limits.toml >"$tree/DEBIAN/conffiles"
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@PYTHON@/3.$minor/; s/@NEXT_PYTHON@/3.$((minor + 1))/" \
    -e "s/@SIZE_KIB@/$(du -sk --exclude DEBIAN "$tree" | cut -f1)/" "$top/packaging/deb/control" >"$tree/DEBIAN/control"
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
file=$folder/soundings-agent_${version}_${architecture}.deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$file" >/dev/null
echo "$(du -h "$file" | cut -f1)  $file"
