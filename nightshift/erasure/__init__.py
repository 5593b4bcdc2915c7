"""Erasure of one entity: whose bytes they are, in each format of the workspace, and the list of who was erased.

Bytes in, bytes out; which files there are, and in which order they change, is in `pipelines/erasure/`.
"""
