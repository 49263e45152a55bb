#!/bin/sh
# Makes the secrets that docker-compose.yml needs, each in a folder of its own (a volume there, mounted only where it is
# read). What exists is kept. usage: compose-secrets.sh FOLDER
set -eu
folder=$1

# Everybody may read the files, since each image runs as a user of its own; who gets a volume mounted is what guards them.
umask 022

write() { # FILE, its content on standard input; in one step, so that a file is never half there
    cat >"$1.new"
    mv "$1.new" "$1"
}

for secret in database/password reader/password grafana/password redis/password centre/secret_key; do
    mkdir -p "$folder/${secret%/*}"
    [ -s "$folder/$secret" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' | write "$folder/$secret"
done
printf 'postgresql://soundings:%s@timescaledb:5432/soundings' "$(cat "$folder/database/password")" |
    write "$folder/centre/database_url"
printf 'requirepass %s\n' "$(cat "$folder/redis/password")" | write "$folder/redis/password.conf"
printf 'redis://:%s@redis:6379/0' "$(cat "$folder/redis/password")" | write "$folder/centre/redis_url"
echo "secrets: in place"
