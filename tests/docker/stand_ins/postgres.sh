#!/bin/sh
# A database cluster once, with the user, password and database of the variables that the image postgres knows; then the server.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb -D "$PGDATA" -E UTF8 --locale=C.UTF-8 -U "$POSTGRES_USER" --auth-host=scram-sha-256 --auth-local=trust --pwfile=/tmp/password >/dev/null
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  printf 'create database "%s"' "$POSTGRES_DB" | postgres --single -D "$PGDATA" -j postgres >/dev/null
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c port="${PGPORT:-5432}" -c unix_socket_directories=/tmp
