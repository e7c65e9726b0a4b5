# Stands in for the image postgres:16 where no registry can be reached: Debian's PostgreSQL 15 with the same variables.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq && mkdir -p /usr/share/man/man1 /usr/share/man/man7 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-15 \
 && rm -rf /var/lib/apt/lists/* && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data /run/postgresql
COPY postgres.sh /usr/local/bin/postgres-entrypoint
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/data
USER postgres
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/local/bin/postgres-entrypoint"]
