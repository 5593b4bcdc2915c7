"""Start a pipeline on Kubeflow: every night, or when monitoring asks for a retraining.

Reads: for a retraining, monitoring's request.
Writes: `launch`, JSON: the run, whether it is new, and why. A day's run of a use case is started once, whoever asks for
it and however often: it is looked for by its name.
"""
