"""Log lines as JSON, one object a line, which log collectors read without a pattern."""

import logging
import time

import msgspec


class Lines(logging.Formatter):
    """Formats a record as `time`, `level`, `message`, what `extra={"fields": {...}}` adds, and an error's traceback."""

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
