"""Who is notified of a failed task and a late run: the log, and the channels that have a connection.

The connection `nightshift_slack` is a Slack incoming webhook, `nightshift_email` an SMTP server whose extra has
`from_email` and `to`.
Airflow 3.3 refuses a late run's callback the connections in its database; environment variables it reads.
"""

import html
import logging
from collections.abc import Callable
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from pipelines.engines.airflow.operators.reporting import ReportedFailureError

SLACK, EMAIL = "nightshift_slack", "nightshift_email"
ERROR_LENGTH = 1500  # characters

log = logging.getLogger(__name__)


def report_failure(context: Any) -> None:
    """Report a task that has failed and is not tried again, but not the report's of a run that failed before it."""
    if isinstance(context.get("exception"), ReportedFailureError):
        return
    task, run = context["ti"], context["dag_run"]
    error = _shorten_error(str(context.get("exception") or "").strip())
    tell(f"{task.dag_id}: {task.task_id} failed in {run.run_id}", f"{error}\n{task.log_url}")


def _shorten_error(error: str) -> str:
    """Return an error without its middle, when it is longer than a message should be."""
    half = ERROR_LENGTH // 2
    return error if len(error) <= ERROR_LENGTH else f"{error[:half]}\n...{error[-half:]}"


def report_lateness(context: Any) -> None:
    """Report a run that is not done by its deadline."""
    run = context["dag_run"]
    tell(f"{run['dag_id']}: {run['dag_run_id']} is late", f"due by {context['deadline']['deadline_time']}")


def tell(subject: str, text: str) -> None:
    """Send a message; a channel that does not take it is logged, since the failure it reports counts more."""
    log.error("%s: %s", subject, text)
    for connection, send in CHANNELS.items():
        try:
            send(Connection.get(connection), subject, text)
        except AirflowNotFoundException:
            continue
        except AirflowSecretsBackendAccessDenied:
            log.warning(
                "a late run is reported only to connections defined as environment variables, not to %s", connection
            )
        except Exception:
            log.exception("connection %s did not take the message", connection)


def _slack(connection: Connection, subject: str, text: str) -> None:
    from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

    # where & < > are text, Slack finds no link, mention or channel
    plain = html.escape(text, quote=False)
    SlackWebhookHook(slack_webhook_conn_id=connection.conn_id).send(text=f"*{html.escape(subject)}*\n{plain}")


def _email(connection: Connection, subject: str, text: str) -> None:
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    page = f"<pre>{html.escape(text)}</pre>"
    with SmtpHook(smtp_conn_id=connection.conn_id) as server:
        server.send_email_smtp(to=connection.extra_dejson["to"], subject=subject, html_content=page)


CHANNELS: dict[str, Callable[[Connection, str, str], None]] = {SLACK: _slack, EMAIL: _email}
