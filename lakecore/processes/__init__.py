"""This package runs units of work in processes of this machine, without Spark.

The module `executor` is its entrance. A unit crosses to another process as a pickle, as on Spark. A process
that is killed fails its unit only. When this process ends, however it ends, its workers end.
"""
