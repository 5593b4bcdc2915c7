"""Run pipelines on this machine: a process or container per step."""
