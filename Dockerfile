# One image for the centre's web, worker and beat, for a site's agent, and for the one-shot jobs of docker-compose.yml.
FROM python:3.12.14-slim-bookworm AS environment

RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*

# The dependencies change less often than the code, so they are layers below it.
COPY requirements.txt packaging/requirements-agent-snmp.txt scripts/slim-environment.sh ./
RUN python -m venv /opt/soundings \
    # Redis is a container of its own.
    && awk '/^[^ ]/ { skipped = /^valkey(lite)?==/ } !skipped' requirements.txt >needed.txt \
    && /opt/soundings/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r needed.txt \
    && /opt/soundings/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-agent-snmp.txt \
    && sh slim-environment.sh /opt/soundings

FROM python:3.12.14-slim-bookworm

# What a site's agent runs beside Python: throughput tests, and `ss`. Then what sets the reports'
# PDFs.
RUN apt-get update \
    && apt-get install -y --no-install-recommends iperf3 iproute2 \
        libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*

# A fixed number, so that files in volumes keep their owner from one release to the next. Volumes take the owner of the
# folders they are first mounted over.
RUN groupadd --gid 10001 soundings \
    && useradd --uid 10001 --gid soundings --no-create-home --home-dir /data --shell /usr/sbin/nologin soundings \
    && install -d -o soundings -g soundings -m 0750 /data /token \
    && install -d -o soundings -g soundings -m 0755 /run/soundings/web

ENV PATH=/opt/soundings/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SOUNDINGS_DATA=/data

WORKDIR /app

COPY --from=environment /opt/soundings /opt/soundings
COPY manage.py pyproject.toml LICENSE ./
COPY scripts/compose-secrets.sh scripts/
COPY probes probes
COPY monitor monitor
COPY dashboards dashboards
RUN python -m compileall -q probes monitor dashboards manage.py

ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Soundings" \
    org.opencontainers.image.description="Continuous end-to-end network monitoring between sites: the centre and an agent" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION"

USER soundings
EXPOSE 8000

# No HEALTHCHECK here: what is healthy differs between web, worker, beat and agent, and docker-compose.yml says it.
CMD ["gunicorn", "--config=python:monitor.stack.serving", "--bind=0.0.0.0:8000"]
