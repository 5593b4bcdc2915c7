"""A world of patients, scanners and sites: what their scans show, how these look and what reports say of them."""
