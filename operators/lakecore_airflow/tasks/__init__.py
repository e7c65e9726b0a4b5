"""This package has the bases of operators: parameters, identities, leases, engines and windows of tasks."""
