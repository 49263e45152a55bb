# A site's agent alone: no Django, no database driver, no charts. Built from the top folder:
#   docker build --file packaging/agent.Dockerfile --tag soundings-agent .
FROM python:3.12.14-slim-bookworm AS environment

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
COPY packaging/requirements-agent.txt ./
RUN python -m venv /opt/soundings/.venv \
    && /opt/soundings/.venv/bin/pip install --require-hashes -r requirements-agent.txt \
    && /opt/soundings/.venv/bin/pip uninstall --yes pip

FROM python:3.12.14-slim-bookworm

# What the agent runs beside Python: throughput tests, and the Redis of its own.
RUN apt-get update \
    && apt-get install -y --no-install-recommends iperf3 redis-server \
    && rm -rf /var/lib/apt/lists/*

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

# It pings over datagram sockets: Docker's default for containers, net.ipv4.ping_group_range = 0 2147483647, is enough.
USER soundings
VOLUME /data
HEALTHCHECK --interval=30s --timeout=10s --start-period=1m CMD ["python", "-m", "probes", "site", "status", "--data", "/data"]
ENTRYPOINT ["python", "-m", "probes"]
CMD ["site", "--data", "/data"]
