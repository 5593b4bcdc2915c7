"""The shell around a step: flags, context, errors and exit codes, progress, telemetry, lineage."""
