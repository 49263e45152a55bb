"""Version comparison, tested against PEP 440's reference implementation for releases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from probes.site.versions import is_older

releases = st.lists(st.integers(0, 20), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))


@given(releases, releases)
def test_releases_compare_as_in_pep_440(version, other):
    assert is_older(version, other) == (Version(version) < Version(other))


@pytest.mark.parametrize("version", ["0.1.0rc1", "0.1.0+local", "0.1.0.dev3", "0.2"])
def test_a_suffix_does_not_make_a_version_older(version):
    assert not is_older(version, "0.1.0")


@pytest.mark.parametrize("version", ["", "v1", "unknown", "0.0.99999999999"])
def test_an_invalid_version_is_older_than_any(version):
    assert is_older(version, "0.1.0")
