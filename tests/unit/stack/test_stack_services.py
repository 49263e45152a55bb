"""Which servers `manage.py up` leaves to others."""

import pytest

from monitor.stack.services import Stack


@pytest.fixture
def said():
    return []


@pytest.fixture
def stack(tmp_path, said):
    return Stack.in_folder(tmp_path, 0, said.append)


def test_the_redis_url_may_come_from_a_file(stack, said, tmp_path, monkeypatch):
    (tmp_path / "redis_url").write_text("redis://:hunter2@redis.example:6379/0")
    monkeypatch.setenv("SOUNDINGS_REDIS_URL_FILE", str(tmp_path / "redis_url"))

    stack.start_broker()

    assert said == ["redis: as set in SOUNDINGS_REDIS_URL"]
    assert "SOUNDINGS_REDIS_URL" not in stack.environment


def test_the_database_url_may_come_from_a_file(stack, said, tmp_path, monkeypatch):
    (tmp_path / "database_url").write_text("postgresql://soundings:hunter2@database.example/soundings")
    monkeypatch.setenv("SOUNDINGS_DATABASE_URL_FILE", str(tmp_path / "database_url"))
    monkeypatch.delenv("SOUNDINGS_DATABASE_URL", raising=False)
    monkeypatch.setattr(Stack, "manage", lambda stack, *arguments: None)

    stack.start_database()

    assert said == ["postgres: as set in SOUNDINGS_DATABASE_URL"]
    assert "SOUNDINGS_DATABASE_URL" not in stack.environment
