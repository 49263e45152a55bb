"""Which of PostgreSQL's programs a backup runs."""

import importlib.util
from types import SimpleNamespace

from monitor.stack import postgres


def test_bundled_programs_are_used_without_a_server_beside_them(tmp_path, monkeypatch):
    """Our image has no server, since that is another container."""
    folder = tmp_path / "pginstall18" / "bin"
    folder.mkdir(parents=True)
    program = folder / "pg_dump"
    program.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 18.4'\n")
    program.chmod(0o755)
    wheel = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: wheel)
    monkeypatch.setattr(postgres, "PACKAGED", tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert postgres.client_program("pg_dump", 17) == program
