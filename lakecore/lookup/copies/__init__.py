"""This package makes the local copies of data files: for one process, or in directories that the processes of
a machine share, where a process that starts anew finds them again.
"""
