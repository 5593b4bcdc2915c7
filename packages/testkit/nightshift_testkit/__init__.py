"""Simulated clusters, Kubeflow, clouds and engines, and real servers, for tests."""
