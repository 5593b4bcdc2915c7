"""The engine of this machine's endpoint."""
