"""An MLflow tracking server: the connection, runs, nights as runs, and when a version was live."""
