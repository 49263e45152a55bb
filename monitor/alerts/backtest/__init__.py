"""The rules on history: what they would have found, by the same code that runs live, and how right they were.

`recorded` holds measurements in arrays and answers what a sweep asks; `replay` moves the clock, and keeps of incidents
what the next moment needs; `labelled` does so for series whose changes a person has marked. No incident is written,
nobody is told.
"""
