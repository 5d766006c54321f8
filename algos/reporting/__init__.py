"""The page of a run, and the page that compares runs: one HTML file each, without a network.

`report_run(path)`, `report_runs(paths)` return them. `data` reads a run, `estimates`, `charts`, `curves`, `tables` and
`comparison` count, `browser` holds what the browser of contests shows, `page` makes HTML of it.
"""

from algos.reporting.report import report_run, report_runs

__all__ = ["report_run", "report_runs"]
