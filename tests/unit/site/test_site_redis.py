"""The Redis URL of an agent: a password must not be on the command line."""

import argparse

import pytest

from probes.site import command
from probes.site.settings import SettingsError
from tests.facts import lacks


def redis_url(tmp_path, option):
    token = tmp_path / "token"
    token.write_text("token")
    token.chmod(0o600)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = ["--centre", "https://centre.example", "--token-file", str(token), "--redis", option]
    return command._settings(parser.parse_args(arguments), tmp_path).redis_url


def test_a_url_without_a_password_is_accepted(tmp_path):
    assert redis_url(tmp_path, "redis://localhost:6379/3") == "redis://localhost:6379/3"


def test_a_password_visible_in_ps_is_refused_and_not_repeated(tmp_path):
    with pytest.raises(SettingsError) as error:
        redis_url(tmp_path, "redis://:hunter2@localhost:6379/3")
    assert lacks(str(error.value), "--redis", "process list", "password") == []
    assert "hunter2" not in str(error.value)


def test_the_url_can_be_in_a_file(tmp_path):
    (tmp_path / "redis").write_text("redis://:hunter2@localhost:6379/3\n")

    assert redis_url(tmp_path, str(tmp_path / "redis")) == "redis://:hunter2@localhost:6379/3"


def test_a_missing_url_file_is_reported(tmp_path):
    with pytest.raises(SettingsError) as error:
        redis_url(tmp_path, str(tmp_path / "nowhere"))
    assert lacks(str(error.value), f"--redis {tmp_path / 'nowhere'}:", "give a URL", "a file") == []
