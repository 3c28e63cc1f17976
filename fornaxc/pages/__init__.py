"""HTML pages that are one file each and need no network: their frame, their tables, their plots."""
