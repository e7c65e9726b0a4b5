#!/bin/sh
# build_environment.sh LOCK: /opt/lakecore gets exactly the packages of the lock, hashes checked, and lakecore's wheel;
# what no program reads (tests, headers, static libraries) is removed, and every module is compiled.
set -eu
here=$(pwd)/docker
/uv/bin/uv pip sync -q --require-hashes "$1"
/uv/bin/uv pip install -q --no-deps --no-index dist/*.whl
cd /opt/lakecore/lib/python3*/site-packages
rm -rf pyarrow/include pyarrow/src pyarrow/tests numpy/*/tests numpy/tests pandas/tests numpy/_core/include
find . -name '*.a' -delete
find . -name '*.pyi' -delete
if [ -d pyspark ]; then # examples, tests and the parts of the cluster managers that the images do not start
  rm -rf pyspark/examples pyspark/data pyspark/tests pyspark/*/tests pyspark/jars/connect-repl
  /opt/lakecore/bin/python "$here/keep_platform.py" pyspark/jars
fi
