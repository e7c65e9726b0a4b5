"""This file is the application that is submitted to Spark; its arguments are those of the command
`lakecore`.
"""

from __future__ import annotations

import sys

from lakecore.cli.main import main

if __name__ == "__main__":
    code = main()
    if code:  # a notebook of Databricks takes any exit for a failure
        sys.exit(code)
