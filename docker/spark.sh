#!/bin/sh
# lakecore-spark master|worker: a standalone Spark from pyspark's own jars, in the foreground.
#   SPARK_MASTER_HOST, SPARK_MASTER_PORT     where the master listens (this host's name, 7077)
#   SPARK_MASTER_URL                         the worker's master (spark://spark-master:7077)
#   SPARK_WORKER_CORES, SPARK_WORKER_MEMORY  what a worker offers (1, 1g)
set -eu
SPARK_HOME=${SPARK_HOME:-$(/opt/lakecore/bin/python -c 'import importlib.util as u, pathlib as p; print(p.Path(u.find_spec("pyspark").origin).parent)')}
export SPARK_HOME
host=${SPARK_MASTER_HOST:-$(hostname)}
case "${1:-}" in
  master)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master \
      --host "$host" --port "${SPARK_MASTER_PORT:-7077}" --webui-port "${SPARK_MASTER_WEBUI_PORT:-8081}" ;;
  worker)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker \
      --cores "${SPARK_WORKER_CORES:-1}" --memory "${SPARK_WORKER_MEMORY:-1g}" --host "${SPARK_WORKER_HOST:-$(hostname)}" \
      --webui-port "${SPARK_WORKER_WEBUI_PORT:-8082}" "${SPARK_MASTER_URL:-spark://spark-master:7077}" ;;
  *) echo "usage: lakecore-spark master|worker" >&2; exit 2 ;;
esac
