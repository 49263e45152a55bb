"""An application whose only migration needs an exclusive lock on `burst`, for the tests of `manage.py migrate`."""
