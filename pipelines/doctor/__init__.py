"""`nightshift doctor`: whether a machine, an environment or a cloud account offers what the pipelines need.

A check is a function over injected clients that yields `HealthCheck`s; a file has the checks of one subject.
"""
