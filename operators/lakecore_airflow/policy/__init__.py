"""This package has the operators of maintenance by policy, and the chores that a policy may name."""
