"""Seven no-op steps with kfp.local's subprocess runner (which takes Python components, not containers)."""

from kfp import dsl, local


@dsl.component
def noop() -> int:
    return 0


@dsl.pipeline(name="seven-noops")
def seven() -> None:
    previous = noop()
    for _ in range(6):
        previous = noop().after(previous)


if __name__ == "__main__":
    local.init(runner=local.SubprocessRunner(use_venv=False))
    seven()
