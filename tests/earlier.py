"""The commit from which upgrades are tested, as of an earlier release."""

EARLIER = "66c2004eb8fafbdd9d690953a7504b677a0b1683"
