"""The commit from which upgrades are tested, as of an earlier release."""

EARLIER = "fb922e12"
