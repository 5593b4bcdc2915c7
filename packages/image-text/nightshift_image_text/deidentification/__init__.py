"""De-identification: identifiers leave headers, reports and pixels before anything reaches the lake."""
