"""The centre's web worker with little patience and small buckets, so that tests need not wait for minutes."""

from monitor.accounts import rates
from monitor.stack import web_worker

web_worker.HEADERS_S = 1.0
web_worker.BODY_S = 2.0
rates.AGENT = rates.Rate(per_s=0.01, most=30)

Worker = web_worker.Worker
