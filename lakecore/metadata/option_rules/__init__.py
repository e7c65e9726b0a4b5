"""This package says what lakecore does with an option of Paimon that it does not obey.

It refuses the option, warns of it, or lets it stand because it only directs other engines. It also says which
options a single run may be given. It is pure.
"""
