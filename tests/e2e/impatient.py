"""The centre's web worker with short timeouts and small buckets, so that tests need not wait for minutes."""

from monitor.accounts import rate_limits
from monitor.stack import web_worker

web_worker.HEADERS_S = 1.0
web_worker.BODY_S = 2.0
rate_limits.AGENT = rate_limits.Rate(per_s=0.01, most=30)

Worker = web_worker.Worker
