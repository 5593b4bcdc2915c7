"""Carries out the runs that `kubeflow.py` gets, on the simulated cluster of `cluster/`.

It does what Kubeflow Pipelines 2.17.0 and its Argo 4.0.5 do with our compiled pipelines, read in their sources: no
Kubeflow runs here. What ours do not use is refused: nested graphs, conditions, loops, output parameters. The driver is
part of the test, not a pod; nothing is cached; Argo's own containers end at once.
"""
