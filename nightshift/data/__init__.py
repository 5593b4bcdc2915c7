"""What a third party's table means: values, times, dates, dialects, databases, splits by day."""
