"""What is left of planted identifiers, beside plain Presidio, `deid` and `dicognito`."""
