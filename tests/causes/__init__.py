"""Planted faults in a simulated mesh, stored through the archive and evaluated live: checks the stated causes."""
