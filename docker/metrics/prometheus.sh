#!/bin/sh
# prometheus.sh [ARGUMENT...]: start Prometheus with prometheus.yml beside this file. It writes the token
# (LAKECORE_METRICS_TOKEN) to a file that only its user can read, and the target (LAKECORE_METRICS_TARGET, host:port)
# to another one: Prometheus puts no variables into its configuration.
set -eu
umask 077
printf '%s' "${LAKECORE_METRICS_TOKEN:?}" > /tmp/metrics-token
printf '[{"targets": ["%s"]}]' "${LAKECORE_METRICS_TARGET:?}" > /tmp/metrics-target.json
unset LAKECORE_METRICS_TOKEN
exec prometheus --config.file="$(dirname "$0")/prometheus.yml" --storage.tsdb.path=/prometheus \
  --storage.tsdb.retention.time=90d --web.listen-address=:9090 "$@"
