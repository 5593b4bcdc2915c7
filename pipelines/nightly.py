"""Nightly: start another pipeline for the last complete day."""

from typing import Any

from kfp import dsl

from components.launching.component import launching


@dsl.pipeline(name="nightly", description=__doc__)
def nightly(
    pipeline: str,
    kubeflow: dict[str, Any],
    config: dict[str, Any],
    data: str,
    device: str,
    lake: str,
    registry: str,
    runs: str,
    audit: str,
    target: str,
) -> None:
    """Fix the logical date, which a recurring run cannot, and start a pipeline with it.

    Args:
        pipeline: name of the uploaded pipeline; it is given those of the parameters below that it declares.
        kubeflow: endpoint, experiment and namespace, where the run is started.
        config: the use case, as in `pipelines/configs/`.
        data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
        device: cpu or cuda.
        lake: root of the tables by day.
        registry: root of the model registry.
        runs: root of the run summaries.
        audit: root of the audit log.
        target: where models are deployed.
    """
    launch = launching(
        pipeline=pipeline,
        kubeflow=kubeflow,
        config=config,
        data=data,
        device=device,
        lake=lake,
        registry=registry,
        runs=runs,
        audit=audit,
        target=target,
    )
    launch.set_caching_options(False).set_retry(5, "60s", 2.0)
    launch.set_cpu_request("1").set_memory_request("1G").set_memory_limit("2G")
