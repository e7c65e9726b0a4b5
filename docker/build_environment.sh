#!/bin/sh
# build_environment.sh LOCK: /opt/lakecore gets exactly the packages of the lock, hashes checked, and lakecore's wheel;
# what no program reads (tests, headers, static libraries) is removed, and every module is compiled. The bill of materials
# (CycloneDX) lists the packages that are there.
set -eu
here=$(pwd)/docker
/uv/bin/uv pip sync -q --require-hashes "$1"
/uv/bin/uv pip install -q --no-deps --no-index dist/*.whl
cd /opt/lakecore/lib/python3*/site-packages
rm -rf pyarrow/include pyarrow/src pyarrow/tests numpy/*/tests numpy/tests pandas/tests numpy/_core/include
rm -rf numpy/f2py numpy/distutils sqlalchemy/testing # for who builds extensions, and tests dialects
find . -name '*.a' -delete
find . -name '*.pyi' -delete
find . -name '*.pxd' -delete
if [ -d pyspark ]; then # examples, tests and the parts of the cluster managers that the images do not start
  rm -rf pyspark/examples pyspark/data pyspark/tests pyspark/*/tests pyspark/jars/connect-repl
  /opt/lakecore/bin/python "$here/keep_platform.py" pyspark/jars
fi
# lakecore, pandas and Spark do not import Arrow Flight; lakecore's S3 is obstore; nothing compiles against Arrow
rm -f pyarrow/libarrow_flight.so* pyarrow/libarrow_python_flight.so* pyarrow/_flight.*.so pyarrow/*.pyx pyarrow/*.pxi
rm -f pyarrow/libarrow_s3.so* pyarrow/_s3fs.*.so pyarrow/_pyarrow_cpp_tests.*.so
for library in pyarrow/libarrow_python.so pyarrow/libarrow_python.so.*.*.*; do
  ln -sf "$(basename pyarrow/libarrow_python.so.????)" "$library"
done
if [ ! -d airflow ]; then # neither the command nor Spark shows programs in color
  find pygments/lexers -name '*.py*' ! -name '_*' ! -name 'python.*' ! -name 'special.*' -delete
fi
/opt/lakecore/bin/python "$here/strip_libraries.py" .
# botocore is there for logins, and for the script that fills the demo's bucket
find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name sts ! -name 'sso*' ! -name signin -exec rm -rf {} +
install -d /opt/lakecore/share/lakecore
/sbom/bin/cyclonedx-py environment --output-reproducible --of JSON -o /opt/lakecore/share/lakecore/sbom.cdx.json /opt/lakecore/bin/python
