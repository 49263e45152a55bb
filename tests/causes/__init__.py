"""Planted faults in a simulated mesh, stored through the archive and evaluated live: are the stated causes right?"""
