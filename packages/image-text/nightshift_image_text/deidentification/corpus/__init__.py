"""Planted studies: made-up patients, their headers, scans and reports, with the places of every identifier."""
