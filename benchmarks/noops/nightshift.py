"""Seven no-op steps, compiled for Nightshift: `python nightshift.py FILE`."""

import sys

from kfp import compiler, dsl


@dsl.container_component
def noop() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="busybox:1", command=["true"])


@dsl.pipeline(name="seven-noops")
def seven() -> None:
    previous = noop()
    for _ in range(6):
        previous = noop().after(previous)


if __name__ == "__main__":
    compiler.Compiler().compile(seven, sys.argv[1])
