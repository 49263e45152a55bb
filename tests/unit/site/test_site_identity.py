"""The identity of a data folder and of its starts: through restarts, clocks that go back, and copies."""

import json
import shutil

from probes.site.identity import begin, read


def test_a_folder_keeps_its_instance_and_starts_are_numbered(tmp_path):
    path = tmp_path / "identity.json"

    first, second = begin(path), begin(path)

    assert first.instance == second.instance
    assert first.start < second.start
    assert read(path) == second


def test_start_numbers_increase_when_the_clock_is_set_back(tmp_path):
    path = tmp_path / "identity.json"

    starts = [begin(path, now_us).start for now_us in (5_000_000, 1_000_000, 6_000_000)]

    assert starts == [5_000_000, 5_000_001, 6_000_000]


def test_folders_are_instances_and_a_copy_is_the_same_instance(tmp_path):
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    identity = begin(here)
    assert begin(there).instance != identity.instance

    shutil.copy(here, there)

    assert begin(there).instance == identity.instance


def test_a_damaged_file_gives_another_instance(tmp_path):
    path = tmp_path / "identity.json"
    identity = begin(path)
    path.write_text(json.dumps({"instance": 7}))

    assert read(path) is None
    assert begin(path).instance != identity.instance


def test_an_identity_is_sent_as_name_and_number(tmp_path):
    begun = begin(tmp_path / "identity.json", 7)

    assert str(begun) == f"{begun.instance}.7"
