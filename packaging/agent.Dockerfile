# A site's agent alone: no Django, no database driver, no charts. Built from the top folder, with BuildKit, which
# Docker Engine has by default from 23 on:
#   DOCKER_BUILDKIT=1 docker build --file packaging/agent.Dockerfile --tag soundings-agent .
FROM python:3.12.14-slim-bookworm AS environment

RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*

COPY packaging/requirements-agent.txt packaging/requirements-agent-snmp.txt scripts/slim-environment.sh ./
RUN python -m venv /opt/soundings/.venv \
    && /opt/soundings/.venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-agent.txt \
    # What polls routers (docs/capacity.md), 5 MB of the image when compressed.
    && /opt/soundings/.venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-agent-snmp.txt \
    && sh slim-environment.sh /opt/soundings/.venv

FROM python:3.12.14-slim-bookworm

# What the agent runs beside Python: throughput tests, and `ss` for the kernel's counters of them.
RUN apt-get update \
    && apt-get install -y --no-install-recommends iperf3 iproute2 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*

# As in the image of the centre: a fixed number, so that files in volumes keep their owner from one release to the next.
RUN groupadd --gid 10001 soundings \
    && useradd --uid 10001 --gid soundings --no-create-home --home-dir /data --shell /usr/sbin/nologin soundings \
    && install -d -o soundings -g soundings -m 0700 /data

COPY --from=environment /opt/soundings/.venv /opt/soundings/.venv
COPY LICENSE /opt/soundings/
COPY probes /opt/soundings/probes

ENV PATH=/opt/soundings/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /opt/soundings
RUN python -m compileall -q probes

ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Soundings agent" \
    org.opencontainers.image.description="The agent of a site: measures its network for a centre elsewhere" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION"

# It pings over datagram sockets: Docker's default for containers, net.ipv4.ping_group_range = 0 2147483647, is enough.
USER soundings
VOLUME /data
HEALTHCHECK --interval=15s --timeout=10s --start-period=1m CMD ["python", "-m", "probes", "site", "status", "--data", "/data"]
ENTRYPOINT ["python", "-m", "probes"]
CMD ["site", "--data", "/data"]
