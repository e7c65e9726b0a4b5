"""This package answers lookups over the network, in the wire protocol of Paimon's query service.

`frames` and `messages` are the protocol, `server` and `client` its two sides. `addresses` records in the
table where servers are, `location` chooses the server of a bucket, `remote_query` is a query on a service.
"""
