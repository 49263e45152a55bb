"""The sub-commands of `manage.py throughput`, a module each: `add_arguments(parser)` and `run(command, options)`."""
