"""This package shows a lake in Airflow's own UI, on pages below `/lakecore`.

- `plugin.py` is what Airflow loads: the app under its prefix, and where Airflow shows it. It imports nothing
  heavy, because every component of Airflow loads it.
- `app.py` has the routes and who may see them. It is imported by the first request.
- `lake_data.py` reads: the newest survey (kept for some seconds), one table, the runs of a table. Storage
  that does not answer delays a page by three seconds at most.
- `views.py` decides what a page shows: filters, order, pages, words. Pure.
- `charts.py` draws; `templates/` has the HTML. A page has no script and loads nothing from outside.

A page changes nothing. Every number has its time beside it.
"""
