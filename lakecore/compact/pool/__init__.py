"""This package compacts many tables at once: their units share one executor, their plans share a budget of
memory.
"""
