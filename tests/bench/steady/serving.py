"""gunicorn settings of the stack, with the application that counts."""

from monitor.stack.serving import *  # noqa: F403

wsgi_app = "tests.bench.steady.application:application"
