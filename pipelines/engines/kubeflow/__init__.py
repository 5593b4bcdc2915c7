"""Run pipelines on Kubeflow: submit, schedule, watch."""
