"""Seven no-op steps with Dagster, each in a process of its own."""

from dagster import DagsterInstance, execute_job, graph, multiprocess_executor, op, reconstructable


@op
def noop(before: int) -> int:
    return before


@op
def first() -> int:
    return 0


@graph
def seven() -> None:
    value = first()
    for index in range(6):
        value = noop.alias(f"noop_{index}")(value)


def job():
    return seven.to_job(executor_def=multiprocess_executor)


if __name__ == "__main__":
    with DagsterInstance.local_temp() as instance:
        result = execute_job(reconstructable(job), instance=instance)
        raise SystemExit(not result.success)
