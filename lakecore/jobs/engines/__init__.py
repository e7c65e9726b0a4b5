"""This package chooses the engine of each table of a job, by the forecast of its work, and shares the engines
among tables.
"""
