#!/bin/sh
# lakecore-airflow-init: bring Airflow's database to this release, and make once what is not there: the first user and
# the connection `lake_default`. What exists stays as it is, so that edits in Airflow's pages survive.
set -eu
airflow db migrate
if ! airflow users list -o plain | awk 'NR > 1 { print $2 }' | grep -qx "$LAKECORE_ADMIN"; then
  airflow users create --role Admin --username "$LAKECORE_ADMIN" --password "$LAKECORE_ADMIN_PASSWORD" \
    --firstname Lake --lastname Owner --email "$LAKECORE_ADMIN@localhost" >/dev/null
fi
airflow connections get lake_default >/dev/null 2>&1 || airflow connections add lake_default --conn-json "$LAKECORE_LAKE" >/dev/null
echo "lakecore: Airflow's database, user $LAKECORE_ADMIN and connection lake_default are there"
