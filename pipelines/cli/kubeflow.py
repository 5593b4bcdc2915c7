"""Commands about Kubeflow: submit a run, schedule a use case, show Prometheus what runs there."""

import argparse
import os
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines import arguments, configs
from pipelines.cli import options
from pipelines.environments import KUBEFLOW_INSIDE, SERVICE_ACCOUNT, SITES, site

if TYPE_CHECKING:
    from nightshift.cluster.kubeflow import KubeflowApi


def add(commands: options.Commands) -> None:
    """Add the commands."""
    _add_submit(commands)
    _add_schedule(commands)
    _add_exporter(commands)


def submit(args: argparse.Namespace) -> int:
    """Start a run on Kubeflow, like `kfp run create` but with checked parameters."""
    from nightshift.cluster.kubeflow import Definition
    from pipelines.engines.kubeflow import submission

    pipeline, server = arguments.load_compiled(args.pipeline, site(args.environment).name), open_server(args)
    values = arguments.gather_arguments(pipeline, options.parameters(args), {"kubeflow": _inside(args)})
    started = server.submit(arguments.run_name(pipeline, values), Definition.read(pipeline.yaml), values)
    options.say(f"run      {started.name}\nid       {started.run_id}\nurl      {started.url}")
    return int(args.wait and not submission.watch(server, started.run_id, partial(print, flush=True)))


def schedule(args: argparse.Namespace) -> int:
    """Schedule the pipelines of a use case on Kubeflow, by its config's `schedule`."""
    from pipelines.engines.kubeflow import submission

    server, nightly = open_server(args), arguments.load_compiled("nightly", site(args.environment).name)
    changes = {}
    for pipeline, cron in configs.clocks(_config(args)).items():
        parameters = options.parameters(args) | {"pipeline": pipeline}
        values = arguments.gather_arguments(nightly, parameters, {"kubeflow": _inside(args)})
        name = f"{values['config']['name']}-{pipeline}"
        wanted = submission.recurring(name, nightly, values, cron) if cron else None
        changes[pipeline] = submission.change(server, name, wanted, args.replace)
    # only now, so that a refusal leaves everything as it was
    for pipeline, change in changes.items():
        uploaded = submission.upload(server, pipeline, arguments.load_compiled(pipeline, args.environment).yaml)
        options.say(f"{pipeline}: {'uploaded' if uploaded else 'the newest version there is the same'}")
        changed = submission.schedule(server, change)
        options.say(f"{change.name}: {change.when}{'' if changed else ', as before'}")
    return 0


def exporter(args: argparse.Namespace) -> int:
    """Export metrics of Kubeflow's runs to Prometheus, including runs that never started."""
    from pipelines.engines.kubeflow.exporter import serve

    serve(open_server(args), args.host, args.port, partial(print, flush=True))
    return 0


def _config(args: argparse.Namespace) -> dict[str, Any]:
    return configs.load(str(options.parameters(args).get("config", configs.DEFAULT)))


def open_server(args: argparse.Namespace) -> "KubeflowApi":
    """Return the API that the flags of `add_server` name."""
    from nightshift.cluster.kubeflow import KubeflowApi, KubeflowTarget

    return KubeflowApi(
        KubeflowTarget(args.endpoint, args.experiment, args.namespace, args.service_account), args.token_file
    )


def _inside(args: argparse.Namespace) -> dict[str, str]:
    """Return the address of Kubeflow inside the cluster."""
    from nightshift.cluster.kubeflow import KubeflowTarget

    return asdict(KubeflowTarget(args.inside, args.experiment, args.namespace, args.service_account))


def _add_submit(commands: options.Commands) -> None:
    command = options.add_command(commands, "submit", submit.__doc__)
    options.add_pipeline(command)
    options.add_date(command)
    _add_cluster(command)
    command.add_argument(
        "--wait", action="store_true", help="print the progress until the run ends; exit 1 when it fails"
    )
    options.add_parameters(command)
    command.set_defaults(command=submit)


def _add_schedule(commands: options.Commands) -> None:
    command = options.add_command(commands, "schedule", schedule.__doc__)
    _add_cluster(command)
    command.add_argument(
        "--replace", action="store_true", help="delete existing recurring runs of the same names first"
    )
    options.add_parameters(command)
    command.set_defaults(command=schedule)


def _add_exporter(commands: options.Commands) -> None:
    command = options.add_command(commands, "exporter", exporter.__doc__)
    add_server(command)
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; a pod needs 0.0.0.0 (default: %(default)s)"
    )
    command.add_argument("--port", type=int, default=9108, help="port to listen on (default: %(default)s)")
    command.set_defaults(command=exporter, service_account="")


def _add_cluster(command: argparse.ArgumentParser) -> None:
    add_server(command)
    command.add_argument("--environment", required=True, help=f"environment to compile for, such as {list(SITES)[-1]}")
    command.add_argument(
        "--inside", default=KUBEFLOW_INSIDE, help="Kubeflow's URL inside the cluster (default: %(default)s)"
    )
    usual = "service account of the runs (default: %(default)s, or the one that a pipeline's steps need)"
    command.add_argument("--service-account", default=SERVICE_ACCOUNT, help=usual)


def add_server(command: argparse.ArgumentParser) -> None:
    """Add the flags that name a Kubeflow and an experiment there."""
    names = {"endpoint": os.environ.get("KFP_ENDPOINT", ""), "namespace": os.environ.get("KFP_NAMESPACE", "")}
    command.add_argument(
        "--endpoint", default=names["endpoint"], help="URL of Kubeflow Pipelines (default: $KFP_ENDPOINT)"
    )
    command.add_argument(
        "--experiment", default="nightshift", help="Kubeflow experiment of the runs (default: %(default)s)"
    )
    command.add_argument(
        "--namespace", default=names["namespace"], help="namespace of the profile, on a multi-user Kubeflow"
    )
    command.add_argument("--token-file", default="", help="file with the bearer token (default: the pod's)")
