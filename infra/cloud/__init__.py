"""Brings up an environment of a cloud and takes it down: the answers about it, and the commands that follow."""
