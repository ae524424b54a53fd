"""Every step from an empty database to the tables of proxy/store/tables.py, and back.

proxy/store/migrating.py runs them. `python -m migrations MESSAGE` drafts the next one.
"""
