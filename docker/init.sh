#!/bin/sh
# init.sh [FILE]: make docker/.env (or FILE) with fresh secrets, once. A file that is there already stays as it is, but for
# secrets that a later release has added.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
file=${1:-$here/.env}
umask 077
secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
names() { sed -n 's/^\(LAKECORE_[A-Z0-9_]*\)=$/\1/p' "$here/.env.example"; }
line() {
  case $1 in
    LAKECORE_FERNET_KEY) echo "$1=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;;
    *) echo "$1=$(secret)" ;;
  esac
}
if [ -e "$file" ]; then
  added=$(names | while read -r name; do grep -q "^$name=" "$file" || { line "$name" >> "$file"; printf ' %s' "$name"; }; done)
  echo "$file is there already and stays as it is${added:+; added to it:$added}"
  exit 0
fi
{
  sed -n '1,/^$/p' "$here/.env.example"
  names | while read -r name; do line "$name"; done
} > "$file.new"
mv "$file.new" "$file"
echo "made $file. Airflow's user is admin, the password is LAKECORE_ADMIN_PASSWORD in that file"
