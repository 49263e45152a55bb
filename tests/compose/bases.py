"""Base images for a machine without access to a registry: Debian's packages, tagged as the files name them.

Python is Debian's 3.11 where the files name 3.12; PostgreSQL 17 with TimescaleDB 2.19, Redis 7.0 and nginx 1.22 replace
newer versions. For Grafana there is no package: an nginx stands in for it, which answers with the request.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.compose.engine import Engine

ROOT = Path(__file__).parents[2]
MINIMAL = "soundings-test/minimal"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")

# Files that an image of a registry does not contain either.
TRIM = "rm -rf /var/cache/apt /var/lib/apt/lists/* /usr/share/doc /usr/share/man /usr/share/locale /var/log/*"
INSTALL = f"RUN apt-get update && apt-get install -y --no-install-recommends {{packages}} && {TRIM}"
PYTHON = INSTALL.format(packages="python3 python3-venv") + " && ln -s python3 /usr/bin/python"
REDIS = INSTALL.format(packages="redis-server")
NGINX = INSTALL.format(packages="nginx-light wget") + " && rm -rf /etc/nginx/sites-enabled"
POSTGRES = f"""
ENV PATH=/usr/lib/postgresql/17/bin:$PATH PGDATA=/var/lib/postgresql/data
RUN install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data && chmod 3777 /run/postgresql && {TRIM}
COPY entrypoint.sh /usr/local/bin/
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["sh", "/usr/local/bin/entrypoint.sh"]
CMD ["postgres"]
"""
# Answers with the host, scheme and path that the proxy passed on.
GRAFANA = """
RUN printf '%s' 'pid /tmp/pid; events {} http { access_log off; client_body_temp_path /tmp/a; proxy_temp_path /tmp/b; \
fastcgi_temp_path /tmp/c; scgi_temp_path /tmp/d; uwsgi_temp_path /tmp/e; server { listen 3000; location / { \
return 200 "$http_host $http_x_forwarded_proto $request_uri $http_upgrade"; } } }' >/grafana.conf
USER 472
ENTRYPOINT ["nginx", "-e", "stderr", "-c", "/grafana.conf", "-g", "daemon off;"]
"""
# The official image's use of these variables, in short.
ENTRYPOINT = """set -eu
export PGHOST=/run/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --encoding=UTF8 --locale=C.UTF-8 \\
        --auth-local=trust --auth-host=scram-sha-256
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "shared_preload_libraries = 'timescaledb'" >>"$PGDATA/postgresql.conf"
    pg_ctl --wait --options="-c listen_addresses= -c unix_socket_directories=$PGHOST" start
    createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    psql --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --command="CREATE EXTENSION timescaledb"
    pg_ctl --wait --mode=fast stop
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories="$PGHOST"
"""


def names() -> dict[str, str]:
    """The images named in the files, by their name without the tag."""
    compose = (ROOT / "docker-compose.yml").read_text()
    images = [*re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)]
    images += re.findall(r"^ +image: (\S+)", compose, re.MULTILINE)
    return {image.partition(":")[0]: image for image in images}


def next_release() -> Path:
    """A tree of the next Debian release with PostgreSQL and TimescaleDB, shared with other tests."""
    tree = ROOT / ".cache" / "timescale"
    subprocess.run(["bash", "scripts/timescale.sh", tree], check=True, cwd=ROOT)
    return tree


def make(engine: Engine, folder: Path, postgres_tree: Path) -> None:
    """Build the base images that the engine does not have yet."""
    tags = names()
    has = engine.run("docker", "images", "--format", "{{.Repository}}:{{.Tag}}")[1].split()
    if f"{MINIMAL}:latest" not in has:
        tree = folder / "minimal"
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", tree],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        # A proxy of this machine may answer with its own certificates.
        shutil.copy2(AUTHORITIES, tree / "etc/ssl/certs/ca-certificates.crt")
        subprocess.run(["chroot", tree, "sh", "-c", TRIM], check=True)
        _import(engine, tree, MINIMAL)
        shutil.rmtree(tree)
    for name, steps in (("redis", REDIS), ("nginx", NGINX)):
        if tags[name] not in has:
            _build(engine, folder, f"FROM {MINIMAL}\n{steps}\n", tags[name])
    if tags["grafana/grafana"] not in has:
        _build(engine, folder, f"FROM {tags['nginx']}\n{GRAFANA}", tags["grafana/grafana"])
    if tags["python"] not in has:
        _build(engine, folder, f"FROM {MINIMAL}\n{PYTHON}\n", "soundings-test/python")
        _flatten(engine, "soundings-test/python", tags["python"])
    if tags["timescale/timescaledb"] not in has:
        _import(engine, postgres_tree, "soundings-test/trixie")
        _build(engine, folder, f"FROM soundings-test/trixie\n{POSTGRES}", tags["timescale/timescaledb"])


def _build(engine: Engine, folder: Path, dockerfile: str, tag: str) -> None:
    context = folder / "context"
    context.mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(dockerfile)
    (context / "entrypoint.sh").write_text(ENTRYPOINT)
    engine.run("docker", "build", "--tag", tag, context)


def _import(engine: Engine, tree: Path, tag: str) -> None:
    pack = f"tar --directory={tree} --create --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* ."
    engine.run("sh", "-c", f"{pack} | docker import - {tag}")


def _flatten(engine: Engine, image: str, tag: str) -> None:
    """Flatten an image to a single layer: files removed by later layers take no space, as in an image of a registry."""
    container = engine.run("docker", "create", image, "true")[1].split()[-1]
    engine.run("sh", "-c", f"docker export {container} | docker import - {tag}")
    engine.run("docker", "rm", container)
