#!/usr/bin/env bash
# Bring a machine to where lakecore runs. Idempotent: does nothing when nothing changed.
#   tools/setup.sh base    .venv from requirements.lock, lakecore itself (editable), a Java runtime 17+
#   tools/setup.sh tests   what only the tests need: JDK and Maven (the Java Paimon oracle), .venv-pypaimon,
#                          Azurite, MariaDB, PostgreSQL
#   tools/setup.sh docs    .venv-docs from requirements-docs.lock, for the site of `make docs`
# System packages come from apt when this user may install them; otherwise the message names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MIN_JAVA=17

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# apt_install REASON PACKAGE...: the packages are tried one after the other until one installs.
apt_install() {
  local reason=$1 package; shift
  may_install || die "$reason. Install it (Debian: apt-get install $1) and run this again."
  say "$reason: installing $1"
  as_root apt-get update -qq || say "apt-get update failed; trying with the lists at hand"
  as_root mkdir -p /usr/share/man/man1 # slim images lack it, and Java's package fails without it
  for package in "$@"; do
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$package" >/dev/null; then
      return 0
    fi
  done
  die "$reason, and none of these packages could be installed: $*"
}

python_in_range() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && python_in_range "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  die "no Python 3.11, 3.12 or 3.13 found (tried ${PYTHON:-python3}, python3.13, python3.12, python3.11); set PYTHON=/path/to/python"
}

# ensure_venv DIR: a virtual environment with pip; one that works is kept and brought up to date by sync_venv.
ensure_venv() {
  python_in_range "$1/bin/python" && return 0
  local python; python=$(find_python)
  rm -rf "$1"
  if ! "$python" -m venv "$1" >/dev/null 2>&1; then
    apt_install "Python's venv module is missing" "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" python3-venv
    rm -rf "$1"
    "$python" -m venv "$1"
  fi
}

# digest FILE...: one hash over the contents and the interpreter's version.
digest() {
  { cat "$@"; "$(find_python)" -V; } | sha256sum | cut -d' ' -f1
}

# sync_venv DIR LOCK...: exactly the packages of the locks, hashes checked. uv where it runs here, else pip. Certificates
# are those of the system, as pip's: a proxy may bring its own.
sync_venv() {
  local uv=.venv/bin/uv dir=$1 lock; shift
  if [ -x "$uv" ] || .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r tools/uv.lock; then
    VIRTUAL_ENV="$PWD/$dir" UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true} UV_HTTP_TIMEOUT=180 UV_LINK_MODE=${UV_LINK_MODE:-copy} \
      "$uv" pip sync -q --require-hashes "$@" && return 0
    say "uv failed; falling back to pip"
  fi
  for lock in "$@"; do
    # the lock is complete, and leaves out pyspark-client (pyproject.toml says why), which pip would miss
    "$dir/bin/python" -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r "$lock"
  done
}

setup_venv() {
  local want; want="$(digest requirements.lock tools/uv.lock pyproject.toml) $PWD" # a folder that moved is made anew
  [ "$(cat .venv/.lakecore-stamp 2>/dev/null)" = "$want" ] && return 0
  say "making .venv from requirements.lock (about a minute)"
  ensure_venv .venv
  sync_venv .venv requirements.lock tools/uv.lock
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
  echo "$want" > .venv/.lakecore-stamp
}

setup_pypaimon() {
  local want; want=$(digest tests/interop/pypaimon.lock)
  [ "$(cat .venv-pypaimon/.lakecore-stamp 2>/dev/null)" = "$want" ] && return 0
  say "making .venv-pypaimon, the second reader of the tests"
  ensure_venv .venv-pypaimon
  sync_venv .venv-pypaimon tests/interop/pypaimon.lock
  echo "$want" > .venv-pypaimon/.lakecore-stamp
}

setup_docs() {
  local want; want=$(digest requirements-docs.lock)
  [ "$(cat .venv-docs/.lakecore-stamp 2>/dev/null)" = "$want" ] && return 0
  say "making .venv-docs, which builds the site"
  ensure_venv .venv-docs
  sync_venv .venv-docs requirements-docs.lock
  echo "$want" > .venv-docs/.lakecore-stamp
}

# Spark's classes for its later sessions; they start without it too.
setup_spark() {
  .venv/bin/lakecore prepare-spark >/dev/null || say "no class archive for Spark: its sessions start a second later"
}

# java_major COMMAND: 17 for both `openjdk version "17.0.15"` and `javac 17.0.15`; nothing when absent.
java_major() {
  command -v "$1" >/dev/null || return 0
  "$1" -version 2>&1 | sed -nE 's/^[^0-9]*([0-9]+)[.0-9]*.*/\1/p' | head -n 1
}

setup_java() {
  local tool=$1 reason=$2 major; shift 2
  local command=${JAVA_HOME:+$JAVA_HOME/bin/}$tool
  major=$(java_major "$command")
  [ "${major:-0}" -ge $MIN_JAVA ] && return 0
  apt_install "$reason (found: ${major:-none})" "$@"
  major=$(java_major "$command")
  [ "${major:-0}" -ge $MIN_JAVA ] || die "$command is still ${major:-missing}; point JAVA_HOME to Java $MIN_JAVA or later"
}

# Fetch Java Paimon, and compile the oracle of this checkout, before the tests: several of their processes start it at once.
setup_oracle() {
  local version
  for version in 1.4.2 2.0.0; do
    [ -f "${ORACLE_HOME:-$HOME/.cache/paimon-oracle}/$version/jars/.complete-4" ] || say "fetching Java Paimon $version"
    PAIMON_VERSION=$version tests/oracle/oracle version >/dev/null
  done
  if [ ! -f "${ORACLE_HOME:-$HOME/.cache/paimon-oracle}/hdfs-3.3.6/.complete" ]; then
    say "fetching the cluster of Hadoop for tests"
    local files; files=$(mktemp -d)
    ORACLE_HDFS=$files tests/oracle/oracle </dev/null >/dev/null 2>&1 || die "the cluster of Hadoop did not start: ORACLE_HDFS=DIRECTORY tests/oracle/oracle"
    rm -rf "$files"
  fi
}

# The classes of Spark SQL for the sessions of tests; they start without it too.
setup_spark_classes() {
  .venv/bin/python -m tests.support.spark_classes >/dev/null 2>&1 || say "no class archive for Spark SQL: the sessions of tests need more CPU"
}

# The server of the tests of JDBC catalogs on MariaDB; Debian puts it outside of the usual path of users.
setup_mariadb() {
  PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null && return 0
  (apt_install "the tests of JDBC catalogs need MariaDB" mariadb-server) || say "without MariaDB its tests fail"
}

# The server of the tests of JDBC catalogs on PostgreSQL, which Debian puts outside of every path.
setup_postgresql() {
  { compgen -G '/usr/lib/postgresql/*/bin/postgres' || command -v postgres; } >/dev/null && return 0
  (apt_install "the tests of JDBC catalogs need PostgreSQL" postgresql) || say "without PostgreSQL its tests fail"
}

# Azurite, the emulator of Azure's blob storage: in a folder that clones share, as the oracle's jars are.
setup_azurite() {
  local home=${AZURITE_HOME:-$HOME/.cache/lakecore-azurite} want
  want=$(sha256sum < tests/azurite/package-lock.json)
  [ "$(cat "$home/.lakecore-stamp" 2>/dev/null)" = "$want" ] && return 0
  command -v npm >/dev/null || apt_install "the tests' emulator of Azure needs Node.js" npm
  say "fetching Azurite, the emulator of Azure's blob storage"
  mkdir -p "$home"
  cp tests/azurite/package.json tests/azurite/package-lock.json "$home"
  npm ci --prefix "$home" --ignore-scripts --no-audit --no-fund --silent >/dev/null
  echo "$want" > "$home/.lakecore-stamp"
}

case ${1:-base} in
  base)
    setup_venv
    setup_java java "Spark needs a Java runtime $MIN_JAVA+" openjdk-17-jre-headless default-jre-headless
    setup_spark
    ;;
  tests)
    setup_java javac "the tests' Java oracle needs a JDK $MIN_JAVA+" openjdk-17-jdk-headless default-jdk-headless
    command -v mvn >/dev/null || apt_install "the tests' Java oracle needs Maven" maven
    setup_pypaimon
    setup_spark_classes
    [ -n "${PAIMON_JARS:-}" ] || setup_oracle
    setup_azurite
    setup_mariadb
    setup_postgresql
    ;;
  docs)
    setup_docs
    ;;
  *) die "usage: tools/setup.sh base|tests|docs" ;;
esac
