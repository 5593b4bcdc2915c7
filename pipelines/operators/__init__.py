"""What the DAGs' tasks do: run a step as a process or in a pod, run a pipeline on Kubeflow, announce assets."""
