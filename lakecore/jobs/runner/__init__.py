"""This package has the parts that jobs share: how a chore begins and ends, many tables at once, forecasts,
counts before and after, and the text of times.
"""
