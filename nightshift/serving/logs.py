"""Log records as JSON, one object a line, for log collectors."""

import logging
import time

import msgspec


class JsonFormatter(logging.Formatter):
    """Formats a record: `time`, `level`, `message`, the fields of `extra={"fields": {...}}`, `error` (a traceback)."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {"time": self.formatTime(record), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()
