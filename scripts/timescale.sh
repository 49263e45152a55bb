#!/usr/bin/env bash
# Makes a folder with TimescaleDB of Debian 13, for the tests; renamed into place when it is whole. usage: timescale.sh DIR
set -euo pipefail
root=$1
release=trixie
package=postgresql-17-timescaledb

[ -x "$root/usr/lib/postgresql/17/bin/postgres" ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "timescale: needs root, to mount and chroot into a Debian 13 folder; run: sudo make test-timescale" >&2
    exit 1
fi
echo "timescale: making $root with $package of Debian $release (about a minute)"
part=$root.part
rm -rf "$part"
mkdir -p "$(dirname "$root")"
debootstrap --variant=minbase --include="$package" "$release" "$part" >/dev/null
chmod 755 "$part"
mv "$part" "$root"
