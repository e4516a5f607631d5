#!/bin/sh
# Stands in for the entrypoint of the official image: a database for POSTGRES_PASSWORD, then the server as postgres.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/18/docker
as_postgres() { exec setpriv --reuid postgres --regid postgres --clear-groups "$@"; }

mkdir -p "$data"
chown -R postgres /var/lib/postgresql /run/postgresql
if [ ! -s "$data/PG_VERSION" ]; then
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    chown postgres /tmp/password
    (as_postgres "$bin/initdb" -D "$data" -U postgres --pwfile /tmp/password -A scram-sha-256 -E UTF8 --locale=C.UTF-8)
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
fi
as_postgres "$bin/postgres" -D "$data" -c 'listen_addresses=*'
