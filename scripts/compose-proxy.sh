#!/bin/sh
# Writes the configuration of docker-compose.yml's nginx and becomes it. usage: compose-proxy.sh plain|tls
#   plain: HTTP on port 8000, and a Unix socket for the agent beside the centre
#   tls:   HTTPS on port 8443 with the certificate in /run/soundings/proxy; port 8080 redirects there
# Both have Grafana under /grafana/. SOUNDINGS_TRUSTED_PROXIES has the addresses of proxies in front of this one, separated by
# commas; SOUNDINGS_TLS_PORT is the port of this machine that leads to 8443.
set -eu
mode=$1
secrets=/run/soundings/proxy
socket=/run/soundings/web/web.sock
work=/tmp/proxy

mkdir -p "$work"
for address in $(printf '%s' "${SOUNDINGS_TRUSTED_PROXIES:-}" | tr ',' ' '); do
    printf '%s 1;\n' "$address"
done >"$work/trusted"

centre() { # X-FORWARDED-FOR X-FORWARDED-PROTO
    cat <<CONFIGURATION
        location / {
            proxy_pass \$centre;
            proxy_set_header Host \$http_host;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $1;
            proxy_set_header X-Forwarded-Proto $2;
        }
CONFIGURATION
}

grafana() { # X-FORWARDED-FOR X-FORWARDED-PROTO
    cat <<CONFIGURATION
        location = /grafana {
            return 308 /grafana/;
        }
        location /grafana/ {
            proxy_pass \$grafana;
            proxy_set_header Host \$http_host;
            proxy_set_header Upgrade \$http_upgrade; # its live updates come over a WebSocket
            proxy_set_header Connection \$connection_header;
            proxy_set_header X-Forwarded-For $1;
            proxy_set_header X-Forwarded-Proto $2;
        }
CONFIGURATION
}

if [ "$mode" = tls ]; then
    if [ ! -s "$secrets/certificate" ] || [ ! -s "$secrets/key" ]; then
        echo "proxy: no certificate; set SOUNDINGS_TLS_CERTIFICATE and SOUNDINGS_TLS_KEY to its files" >&2
        exit 1
    fi
    port=:${SOUNDINGS_TLS_PORT:-443}
    [ "$port" != :443 ] || port=
    cat >"$work/servers" <<CONFIGURATION
    server {
        listen 8443 ssl;
        ssl_certificate $secrets/certificate;
        ssl_certificate_key $secrets/key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:tls:5m;
$(centre '$remote_addr' https)
$(grafana '$remote_addr' https)
    }
    server {
        listen 8080;
        return 308 https://\$host$port\$request_uri;
    }
CONFIGURATION
else
    rm -f "$socket" # left by an nginx that was killed
    cat >"$work/servers" <<CONFIGURATION
    server {
        listen 8000;
$(centre '$forwarded_for' '$forwarded_proto')
$(grafana '$forwarded_for' '$forwarded_proto')
    }
    server { # no network is between, which is as good as TLS
        listen unix:$socket;
$(centre '""' https)
    }
CONFIGURATION
fi

cat >"$work/nginx.conf" <<CONFIGURATION
worker_processes 2;
error_log stderr warn;
pid $work/nginx.pid;
events {
    worker_connections 1024;
}
http {
    access_log off; # the web server logs the requests that it rejects or that fail
    server_tokens off;
    absolute_redirect off; # the port that a reader uses is not that of the container
    client_body_temp_path $work/bodies;
    proxy_temp_path $work/answers;
    fastcgi_temp_path $work/fastcgi;
    scgi_temp_path $work/scgi;
    uwsgi_temp_path $work/uwsgi;
    client_max_body_size 32m;
    client_header_timeout 10s;
    client_body_timeout 30s;
    proxy_http_version 1.1;
    proxy_connect_timeout 5s;
    proxy_read_timeout 300s;

    # Looked up again every few seconds: web containers come and go, and there may be several.
    resolver 127.0.0.11 valid=5s ipv6=off;
    map \$host \$centre {
        default http://web:8000;
    }
    map \$host \$grafana {
        default http://grafana:3000;
    }
    map \$http_upgrade \$connection_header {
        default upgrade;
        "" "";
    }

    # The headers of a proxy in front of this one count if it is trusted.
    geo \$is_trusted {
        default 0;
        include $work/trusted;
    }
    map "\$is_trusted \$http_x_forwarded_proto" \$forwarded_proto {
        default \$scheme;
        "1 http" http;
        "1 https" https;
    }
    map \$is_trusted \$forwarded_for {
        0 \$remote_addr;
        1 \$proxy_add_x_forwarded_for;
    }
    map \$is_trusted \$limited_address {
        0 \$binary_remote_addr;
        1 "";
    }
    limit_conn_zone \$limited_address zone=addresses:1m;
    limit_conn addresses 100;

    server { # for the health check
        listen 127.0.0.1:8001;
        return 200;
    }
    include $work/servers;
}
CONFIGURATION
exec nginx -e stderr -c "$work/nginx.conf" -g "daemon off;"
