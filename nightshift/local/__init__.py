"""What runs on this machine: the endpoint, and what it is asked."""
