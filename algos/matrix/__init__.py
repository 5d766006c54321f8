"""The table of the paper as a command: rows, runs, report."""
