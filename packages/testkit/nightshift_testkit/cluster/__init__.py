"""A simulated Kubernetes API server with nodes whose pods really run; `cluster.running` starts one.

What it refuses, a real server of version 1.36 refuses as well, with the same code and reason and much the same words.

Different from the real one: every write is checked as with fieldValidation=Strict; pods share this machine's network
and address; a claim is bound when it is made, to a folder; an image that is not there is never pulled; a running
container is ready, as probes are not made; who may grant rights is not checked, and roles such as `view` are not there
unless they are applied; server-side apply is a merge without owners of fields. Only with `accounts` is there TLS, and
in each pod a token of its account.

Deployments have no replica sets, and all their pods are replaced at once; a host's path is an empty folder.

Jobs know indices and what of a pod's failure makes them fail; `trainer.py` acts as Kubeflow Trainer, `kserve.py` as
KServe in mode Standard, whose webhook is the only one.

Not built: exec, attach, port-forward and copying; Services, network policies, cron jobs and all else that is only
stored; affinity between pods, preemption by priority; scopes of quotas; OpenAPI beyond what kubectl
needs to apply; several versions of one custom resource as the same objects.
"""
