"""Independent definitions to which tests compare production's figures."""
