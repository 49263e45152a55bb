#!/usr/bin/env bash
# Adds the system packages that are missing, where it may; otherwise says what to install and goes on.
# usage: system.sh run|test
set -euo pipefail

declare -A needed=([iperf3]=iperf3 [ip]=iproute2)
declare -A libraries=([libpango-1.0.so.0]=libpango-1.0-0 [libpangoft2-1.0.so.0]=libpangoft2-1.0-0
                      [libharfbuzz-subset.so.0]=libharfbuzz-subset0)
font=/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf
if [ "$1" = test ]; then
    needed+=([ping]=iputils-ping [fping]=fping [redis-server]=redis-server [chromium-headless-shell]=chromium-headless-shell
             [debootstrap]=debootstrap [openssl]=openssl [nft]=nftables [tcpdump]=tcpdump [tcptrace]=tcptrace
             [mtr]=mtr-tiny [scamper]=scamper [traceroute]=traceroute [dublin-traceroute]=dublin-traceroute
             [redis-cli]=redis-tools [promtool]=prometheus [systemd-analyze]=systemd [location]=location [snmpd]=snmpd
             [haproxy]=haproxy)
fi

missing=()
for tool in "${!needed[@]}"; do
    command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || missing+=("${needed[$tool]}")
done
known=$(/sbin/ldconfig -p 2>/dev/null || true)
for library in "${!libraries[@]}"; do
    grep -q "$library" <<<"$known" || missing+=("${libraries[$library]}")
done
[ -e "$font" ] || missing+=(fonts-dejavu-core)
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo"; else sudo=none; fi
fi
if [ "$sudo" = none ] || ! command -v apt-get >/dev/null; then
    echo "system: missing: ${missing[*]}. Install with: sudo apt-get install ${missing[*]}" >&2
    echo "        Going on with what works." >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
echo "system: updating the list of packages (usually under half a minute)"
$sudo apt-get update -qq
install() { $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
echo "system: installing ${missing[*]} (usually half a minute)"
install "${missing[@]}" && exit 0
# A single one that is not to be had stops them all.
for package in "${missing[@]}"; do
    if ! install "$package"; then
        echo "system: $package could not be installed; try: sudo apt-get install $package. Going on without it." >&2
    fi
done
