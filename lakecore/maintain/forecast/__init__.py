"""Forecasts of what a job takes and which conflicts it may meet: `plan` decides from values, `observe` reads
them.
"""
