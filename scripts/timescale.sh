#!/usr/bin/env bash
# Makes a folder with TimescaleDB of Debian 13, for the tests; renamed into place when it is whole. usage: timescale.sh DIR
set -euo pipefail
root=$1
release=trixie
package=postgresql-17-timescaledb

is_made() { [ -x "$root/usr/lib/postgresql/17/bin/postgres" ]; }
is_made && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "timescale: needs root, to mount and chroot into a Debian 13 folder; run: sudo make test-timescale" >&2
    exit 1
fi
mkdir -p "$(dirname "$root")"
# Another run may be making it at this moment.
exec 9>"$root.lock"
flock 9
is_made && exit 0
echo "timescale: making $root with $package of Debian $release (about a minute)"
part=$root.part
rm -rf "$part"
debootstrap --variant=minbase --include="$package" "$release" "$part" >/dev/null
chmod 755 "$part"
mv "$part" "$root"
