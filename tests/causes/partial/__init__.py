"""Faults of which only a part of the affected paths has alarmed: is their cause named, and is it never another?"""
