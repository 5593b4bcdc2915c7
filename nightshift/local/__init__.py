"""The endpoint on this machine, and example requests for it."""
