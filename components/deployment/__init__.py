"""Deployment: registers the model, makes it the champion where the verdict allows, and serves the champion.

Reads the model, the verdicts of evaluation, skew and drift, and the registry. Writes a version with its lineage
into the registry, the state of the local endpoint below `<registry>/endpoint/<name>/`, and
`deployment.json`, which says what was decided and why, and which URL answers. Where a person has to approve versions,
one that passes waits (`nightshift/registry/approvals.py`).
"""
