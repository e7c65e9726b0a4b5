#!/bin/sh
# init.sh [FILE]: make docker/.env (or FILE) with fresh secrets, once. A file that is there already stays as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
file=${1:-$here/.env}
if [ -e "$file" ]; then
  echo "$file is there already and stays as it is"
  exit 0
fi
umask 077
secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
{
  sed -n '1,/^$/p' "$here/.env.example"
  sed -n 's/^\(LAKECORE_[A-Z0-9_]*\)=$/\1/p' "$here/.env.example" | while read -r name; do
    case $name in
      LAKECORE_FERNET_KEY) echo "$name=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;;
      *) echo "$name=$(secret)" ;;
    esac
  done
} > "$file.new"
mv "$file.new" "$file"
echo "made $file. Airflow's user is admin, the password is LAKECORE_ADMIN_PASSWORD in that file"
