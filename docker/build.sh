#!/bin/sh
# build.sh [TARGET...]: build the images lakecore-TARGET:local (lakecore, spark, airflow; all three by default) with docker,
# or with buildah where no docker daemon answers. LAKECORE_BASE is the Debian 12 to build from, LAKECORE_CA a file of
# certificates for the build alone, where a proxy brings its own.
set -eu
cd "$(dirname "$0")/.."
base=${LAKECORE_BASE:-docker.io/library/debian:bookworm-slim}
ca=${LAKECORE_CA:-}
[ $# -gt 0 ] || set -- lakecore spark airflow
for target in "$@"; do
  if docker info >/dev/null 2>&1; then
    [ -z "$ca" ] || { echo "LAKECORE_CA is obeyed by buildah only: put the certificates into LAKECORE_BASE" >&2; exit 2; }
    docker build --target "$target" --build-arg BASE="$base" -f docker/Dockerfile -t "lakecore-$target:local" .
  elif command -v buildah >/dev/null; then
    buildah bud --isolation chroot --network host --layers ${ca:+-v "$ca:/etc/ssl/certs/ca-certificates.crt:ro"} \
      --build-arg BASE="$base" --ignorefile docker/Dockerfile.dockerignore --target "$target" -f docker/Dockerfile \
      -t "localhost/lakecore-$target:local" .
  else
    echo "neither a docker daemon nor buildah is here: install one of them (Debian: apt-get install buildah)" >&2
    exit 1
  fi
done
