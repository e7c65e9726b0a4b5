"""This package has the users of a warehouse and their privileges, as Paimon's FileBasedPrivilegeManager keeps
them in the tables `user.sys` and `privilege.sys` of the warehouse.
"""
