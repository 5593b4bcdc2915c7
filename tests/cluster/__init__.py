"""A stand-in of a Kubernetes API server with nodes whose pods really run; `tests.cluster.cluster.Cluster` is its door.

What it refuses, a real server of version 1.36 refuses as well, with the same code and reason and much the same words.
"""
