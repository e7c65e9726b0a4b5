"""This package has the commands on what a catalog names: catalogs, databases, privileges, and the tables as
wholes (create, alter, rename, drop, restore).
"""
