# One image for the centre's web, worker and beat, for a site's agent, and for the one-shot jobs of docker-compose.yml.
FROM python:3.12.14-slim-bookworm

# What a site's agent runs beside Python: throughput tests, routes, and the Redis of its own. Then what sets the reports'
# PDFs.
RUN apt-get update \
    && apt-get install -y --no-install-recommends iperf3 iproute2 redis-server \
        libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core \
    && rm -rf /var/lib/apt/lists/*

# A fixed number, so that files in volumes keep their owner from one release to the next. Volumes take the owner of the
# folders they are first mounted over.
RUN groupadd --gid 10001 soundings \
    && useradd --uid 10001 --gid soundings --no-create-home --home-dir /data --shell /usr/sbin/nologin soundings \
    && install -d -o soundings -g soundings -m 0750 /data /token

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    SOUNDINGS_DATA=/data

WORKDIR /app

# The dependencies change less often than the code, so they are a layer below it.
COPY requirements.txt ./
RUN pip install --require-hashes -r requirements.txt

COPY manage.py pyproject.toml LICENSE ./
COPY scripts/compose-secrets.sh scripts/
COPY probes probes
COPY monitor monitor
COPY dashboards dashboards
RUN python -m compileall -q probes monitor dashboards manage.py

USER soundings
EXPOSE 8000

# No HEALTHCHECK here: what is healthy differs between web, worker, beat and agent, and docker-compose.yml says it.
CMD ["gunicorn", "--config=python:monitor.stack.serving", "--bind=0.0.0.0:8000"]
