"""The processor time that a run prints adds up by folder and names the files that took most."""

import time

from tests.processor_time import SHOWN_FILES, lines, used_s


def test_folders_and_files_are_listed_with_the_most_first():
    used = {"tests/unit/a/test_x.py": 1.0, "tests/unit/a/test_y.py": 4.5, "tests/db/test_z.py": 2.0}

    assert [line.split() for line in lines(used)] == [
        ["7.5", "all"],
        ["5.5", "tests/unit/a"],
        ["2.0", "tests/db"],
        ["4.5", "tests/unit/a/test_y.py"],
        ["2.0", "tests/db/test_z.py"],
        ["1.0", "tests/unit/a/test_x.py"],
    ]
    assert len(lines({f"tests/test_{number}.py": 1.0 for number in range(50)})) == 2 + SHOWN_FILES


def test_time_that_is_spent_is_counted():
    before_s, until_s = used_s(), time.process_time() + 0.2
    while time.process_time() < until_s:
        pass

    assert used_s() - before_s >= 0.2
