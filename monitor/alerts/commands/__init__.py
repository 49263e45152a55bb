"""Subcommands of `manage.py alerts`, a module each: HELP, `add_arguments(parser)`, `run(command, options)`."""
