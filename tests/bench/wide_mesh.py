"""A mesh of many sites for benchmarks, as mesh.toml.

Sites are clustered: the sites of a cluster ping each other, and every site pings beacons, as many as give it its share
of the paths. Not a benchmark of its own.
"""

from __future__ import annotations

from pathlib import Path

LARGEST_CLUSTER = 51
TRACES_EVERY_S = 600
COUNTRIES = ("CH", "US", "DE", "JP", "BR")


def mesh_toml(sites: int, paths_per_site: int, *, traces: bool = True) -> str:
    """Text of a mesh.toml with `sites` monitoring sites, each the source of `paths_per_site` paths."""
    cluster = min(sites, LARGEST_CLUSTER, paths_per_site + 1)
    clusters = max(1, sites // cluster)
    members: list[list[int]] = [[] for _ in range(clusters)]
    for number in range(sites):
        members[number % clusters].append(number)
    beacons = max(paths_per_site + 1 - min(map(len, members)), 0)
    tests = '["pinger", "routes"]' if traces else '["pinger"]'
    parts = ['[mesh]\nname = "bench"\n']
    for number in range(sites):
        parts.append(_site(f"s{number}", f"10.{1 + number // 65_536}.{number // 256 % 256}.{number % 256}", number))
    for number in range(beacons):
        parts.append(_site(f"b{number}", f"10.200.{number // 256}.{number % 256}", number, agent=False))
    parts.append('[[test]]\nname = "pinger"\nkind = "ping"\nevery_s = 60\n')
    if traces:
        parts.append(f'[[test]]\nname = "routes"\nkind = "trace"\nevery_s = {TRACES_EVERY_S}\n')
    for number, of_cluster in enumerate(members):
        names = ", ".join(f'"s{member}"' for member in of_cluster)
        if len(of_cluster) > 1:
            parts.append(f'[[group]]\nname = "cluster-{number}"\nshape = "mesh"\nsites = [{names}]\ntests = {tests}\n')
        missing = paths_per_site + 1 - len(of_cluster)
        if missing > 0:
            far = ", ".join(f'"b{beacon}"' for beacon in range(missing))
            parts.append(
                f'[[group]]\nname = "beacons-{number}"\nshape = "between"\nfrom = [{names}]\nto = [{far}]\n'
                f"tests = {tests}\n"
            )
    return "\n".join(parts)


def _site(name: str, address: str, number: int, *, agent: bool = True) -> str:
    country = COUNTRIES[number % len(COUNTRIES)]
    return (
        f'[[site]]\nname = "{name}"\ntitle = "Site {name}"\nlatitude_deg = {number % 140 - 70}\n'
        f'longitude_deg = {number % 340 - 170}\ncountry = "{country}"\n{"" if agent else "agent = false" + chr(10)}'
        f'[[site.host]]\naddress = "{address}"\n'
    )


def write_mesh(folder: Path, sites: int, paths_per_site: int) -> Path:
    """Write the mesh.toml into a folder."""
    file = folder / f"mesh-{sites}.toml"
    file.write_text(mesh_toml(sites, paths_per_site))
    return file
