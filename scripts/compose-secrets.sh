#!/bin/sh
# Makes the secrets that docker-compose.yml needs, each in a folder of its own (a volume there, mounted only where it is
# read), and copies yours into them. What exists is kept. usage: compose-secrets.sh FOLDER [GIVEN]
set -eu
folder=$1
given=${2:-/given}

# Everybody may read the files, since each image runs as a user of its own; who gets a volume mounted is what guards them.
umask 022

write() { # FILE, its content on standard input; in one step, so that a file is never half there
    cat >"$1.new"
    mv "$1.new" "$1"
}

# Yours if it is there and not empty, else the variable: `docker inspect` shows that one.
take() { # NAME FILE VALUE
    if [ -s "$given/$1" ]; then
        write "$2" <"$given/$1"
    else
        printf '%s\n' "$3" | write "$2"
    fi
}

for secret in database/password reader/password grafana/password redis/password centre/database_password centre/secret_key; do
    mkdir -p "$folder/${secret%/*}"
    [ -s "$folder/$secret" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' | write "$folder/$secret"
done
mkdir -p "$folder/superuser" "$folder/proxy"
printf 'postgresql://postgres:%s@timescaledb:5432/soundings' "$(cat "$folder/database/password")" |
    write "$folder/superuser/database_url"
printf 'postgresql://soundings:%s@timescaledb:5432/soundings' "$(cat "$folder/centre/database_password")" |
    write "$folder/centre/database_url"
printf 'requirepass %s\n' "$(cat "$folder/redis/password")" | write "$folder/redis/password.conf"
printf 'redis://:%s@redis:6379/0' "$(cat "$folder/redis/password")" | write "$folder/centre/redis_url"
take notify_urls "$folder/centre/notify_urls" "${SOUNDINGS_NOTIFY_URLS:-log://}"
take other_centres "$folder/centre/other_centres" "${SOUNDINGS_OTHER_CENTRES:-}"
take smtp_url "$folder/centre/smtp_url" "${SOUNDINGS_SMTP_URL:-smtp://localhost:25}"
take oidc_client_secret "$folder/centre/oidc_client_secret" "" # empty without single sign-on
for file in certificate key; do
    [ ! -s "$given/$file" ] || write "$folder/proxy/$file" <"$given/$file"
done

# Those of the centre are for its user alone, the same in every release. Who gave a file away may not change it again.
user=10001
for file in "$folder"/centre/*; do
    if [ "$(stat -c %u "$file")" != "$user" ]; then
        chmod 0400 "$file"
        [ "$(id -u)" != 0 ] || chown "$user:$user" "$file"
    fi
done
echo "secrets: in place"
