"""Reports: a shift, or the shifts of some days, as one HTML file that needs nothing else.

sources.py   what journal and server hold of a run, and the audit's verdict
records.py   a run's rows, typed
budgets.py   what a run used of its limits, over time
steps.py     the transcript by steps, bounded
plots.py     where the lines and bars of the pictures go
overview.py  the figures of many runs
page.py      both pages, of the templates beside it
"""
