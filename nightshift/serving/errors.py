"""Reasons to refuse a request for scores."""

from http import HTTPStatus

from nightshift.http.errors import RefusedError


class NoStateError(RefusedError):
    """Raw events, sent to a server without an online state."""

    status = HTTPStatus.CONFLICT


class NoScoreError(RefusedError):
    """Features for which the model has no finite score."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY
