"""Bad paths through a common AS are named after it; what cannot be told apart, or is too little, is not."""

from monitor.analysis.alarms.candidates import CauseKind, PathLocation
from monitor.analysis.alarms.grouping import explain
from monitor.analysis.routes.common_part import find_common_part
from monitor.analysis.routes.crossings import MeshPath
from monitor.analysis.routes.wording import AsLabels
from tests.routes.incidents import incidents_of
from tests.routes.meshes import faulty_mesh

NUMBERS = {"x": 20965, "y": 174}
LABELS = AsLabels(NUMBERS.get, {20965: "GEANT"}.get)
SITES = "abcdef"


def mesh(bad):
    """Paths of the first three sites to the last three pass x, their reverse y; all others neither."""
    paths = []
    for source in SITES:
        for destination in SITES:
            if source == destination:
                continue
            middle = ("x",) if source in "abc" and destination in "def" else ("y",)
            paths.append(
                MeshPath((source, destination) in bad, source, destination, (f"{source}1", *middle, f"{destination}1"))
            )
    return paths


def across_x():
    return [(source, destination) for source in "abc" for destination in "def"]


def test_the_as_of_all_bad_paths_is_their_name():
    paths = mesh(across_x())

    part = find_common_part(paths, LABELS)

    assert part.name == "AS 20965 GEANT"
    assert {(paths[place].source, paths[place].destination) for place in part.crossing} == set(across_x())
    lines = [
        PathLocation(place, path.source, path.destination, path.source, path.destination, 4)
        for place, path in enumerate(paths)
    ]
    bad = {place for place, path in enumerate(paths) if path.is_bad}
    (cause,) = explain(lines, bad, places={part.name: part.crossing})
    assert (cause.kind, cause.name, cause.bad, cause.measured) == (CauseKind.PLACE, "AS 20965 GEANT", 9, 9)
    assert len(explain(lines, bad)) > 1


def test_two_bad_paths_have_no_name():
    assert find_common_part(mesh(across_x()[:2]), LABELS) is None


def test_bad_paths_without_a_common_hop_have_no_name():
    assert find_common_part(mesh([("a", "b"), ("c", "d"), ("e", "f"), ("b", "e")]), LABELS) is None


def test_hops_of_several_as_are_named_by_the_ends_of_their_stretch():
    """All bad paths, and no others, cross x – y – z of three AS: none of the links can be told from the others."""
    numbers = {"x": 1, "y": 2, "z": 3}
    paths = [
        MeshPath(
            source in "abc" and destination in "def",
            source,
            destination,
            ("x", "y", "z") if source in "abc" and destination in "def" else (f"{source}1", f"{destination}1"),
        )
        for source in SITES
        for destination in SITES
        if source != destination
    ]

    part = find_common_part(paths, AsLabels(numbers.get))

    assert part.name == "between x (AS 1) and z (AS 3)"
    assert [stretch.nodes for stretch in part.stretches] == [("x", "y", "z")]


def test_an_as_that_fails_at_several_routers_is_named():
    named = [incidents_of(faulty_mesh(seed, has_faulty_as=True)) for seed in range(900, 915)]

    assert sum(result.is_place and result.is_right for result in named) >= 12


def test_incidents_of_simulated_meshes_have_the_right_name():
    results = [incidents_of(faulty_mesh(seed)) for seed in range(800, 860)]

    assert sum(result.is_right for result in results) >= 0.85 * len(results)
    assert sum(result.is_common and not result.is_right for result in results) <= 0.05 * len(results)
