"""Diagnostic commands: check a machine, an environment or an account, and archive a run's logs."""

import argparse
import os
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from nightshift.contracts.health import CheckStatus, HealthCheck, HealthReport
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from pipelines import records
from pipelines.cli import options
from pipelines.environments import LOCAL, SITES, site

CLOUDS = ("aws", "gcp")
MEGABYTE = 1_000_000
CONNECT_SECONDS = 10


def add(commands: options.Commands) -> None:
    """Add the commands."""
    command = options.add_command(commands, "doctor", doctor.__doc__)
    _add_environment(command)
    command.add_argument("--in-pod", action="store_true", help="also run the checks in a pod of the environment")
    command.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # the command of that pod
    command.add_argument("--cloud", choices=CLOUDS, help="check a cloud account instead: quotas, billing; needs --plan")
    command.add_argument(
        "--plan", type=Path, help="Terraform plan as JSON, for --cloud: terraform show -json plan > plan.json"
    )
    options.add_workspace(command)
    options.add_json(command, "health_report")
    command.set_defaults(command=doctor)

    command = options.add_command(commands, "debug-dump", debug_dump.__doc__)
    command.add_argument("run", nargs="?", help="id of the run to archive (default: the workspace's last run)")
    _add_environment(command)
    options.add_workspace(command)
    command.add_argument("--output", type=Path, help="archive to write (default: nightshift-debug-<time>.tar.gz)")
    command.set_defaults(in_pod=False)
    command.add_argument(
        "--max-megabytes", type=float, default=20, help="maximum size before compression in MB (default: 20)"
    )
    command.set_defaults(command=debug_dump)


def doctor(args: argparse.Namespace) -> int:
    """Check that this machine, an environment or a cloud account meets the needs of runs; name each fix."""
    report = _diagnose(args)
    if args.json:
        return options.print_document(report, report.exit_code)
    for line in _describe(report):
        print(printable(line))
    return report.exit_code


def debug_dump(args: argparse.Namespace) -> int:
    """Archive versions, settings, the doctor's report and a run's logs for a colleague, no secrets."""
    from pipelines.doctor.dump import gather, write_archive
    from pipelines.doctor.redaction import Redactor

    file = args.output or Path(f"nightshift-debug-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    reports = {LOCAL.name: _diagnose_machine(args)}
    if args.environment and args.environment != LOCAL.name:
        reports[args.environment] = _diagnose_environment(args)
    dump = gather(Redactor(os.environ), int(args.max_megabytes * MEGABYTE), reports, _select_run(args))
    write_archive(dump, file)
    for name, content in dump.members.items():
        print(f"{len(content):>10,}  {name}")
    for name in dump.left_out:
        print(f"{'left out':>10}  {name}: too large; raise --max-megabytes")
    return options.say(f"{file.resolve()}: {file.stat().st_size:,} bytes; read it before you send it")


def _diagnose(args: argparse.Namespace) -> HealthReport:
    if args.cloud or args.plan:
        return _diagnose_account(args)
    if args.environment in (None, LOCAL.name):
        if args.in_pod:
            raise UserError("--in-pod needs a cluster; name it with --environment aws or gcp")
        return _diagnose_machine(args)
    return _diagnose_inside(args) if args.inside else _diagnose_environment(args)


def _diagnose_machine(args: argparse.Namespace) -> HealthReport:
    from pipelines.doctor import machine, web

    return machine.diagnose_machine(Path(args.workspace), web.read_date, machine.ping_docker)


def _diagnose_environment(args: argparse.Namespace) -> HealthReport:
    from pipelines.doctor import environment, kubernetes, web
    from pipelines.doctor.images import HttpRegistry

    cluster, target = kubernetes.connect(args.context), site(args.environment)
    report = environment.diagnose(cluster, target, HttpRegistry(), args.endpoint, web.fetch)
    return environment.add_pod(report, cluster, target) if args.in_pod else report


def _diagnose_inside(args: argparse.Namespace) -> HealthReport:
    from pipelines.doctor import environment, kubernetes

    def connect(host: str, port: int) -> None:
        socket.create_connection((host, port), CONNECT_SECONDS).close()

    return environment.diagnose_inside(kubernetes.connect(inside=True), site(args.environment), connect)


def _diagnose_account(args: argparse.Namespace) -> HealthReport:
    from pipelines.doctor import aws, google, quotas, spending

    if not args.cloud or not args.plan:
        raise UserError("--cloud and --plan belong together, such as --cloud aws --plan plan.json")
    variables, resources = quotas.read_plan(args.plan)
    try:
        if args.cloud == "aws":
            report = quotas.diagnose_quotas(args.cloud, aws.connect(variables["region"]), resources)
            return spending.add_spending(report, spending.connect(), resources, datetime.now(UTC).date())
        account = google.connect(variables["project_id"], variables["region"])
        return quotas.diagnose_quotas(args.cloud, account, resources)
    except KeyError as error:
        raise UserError(f"--plan has no variable {error}; give a plan of infra/{args.cloud}") from None


def _select_run(args: argparse.Namespace) -> Path | None:
    runs = options.state(args).runs
    if args.run:
        return records.find_folder(args.run, runs)
    return next(iter(records.newest_first(Path(runs))), None)


def _describe(report: HealthReport) -> Iterator[str]:
    for check in report.checks:
        yield f"{_label(check):12}{check.name}: {check.seen}"
        if check.fix:
            yield f"{'':12}allowed: {check.allowed}"
            yield f"{'':12}fix: {check.fix}"
    counts = Counter(check.status for check in report.checks)
    yield ", ".join(f"{counts[status]} {status.value}" for status in CheckStatus if counts[status])


def _label(check: HealthCheck) -> str:
    return check.status.value.upper() if check.fix else check.status.value


def _add_environment(command: argparse.ArgumentParser) -> None:
    command.add_argument("--environment", choices=list(SITES), help="cluster to check (default: this machine)")
    command.add_argument("--context", default="", help="context of the kubeconfig (default: the current one)")
    endpoint = os.environ.get("KFP_ENDPOINT", "")
    text = "URL of Kubeflow Pipelines (default: $KFP_ENDPOINT, else through Kubernetes)"
    command.add_argument("--endpoint", default=endpoint, help=text)
