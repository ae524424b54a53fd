# Makes the cluster at the first start, then becomes the server.
set -eu

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

if ! [ -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD: the database takes no connection without one}"
    # A start that was cut short has left half a cluster.
    rm -rf "${PGDATA:?}"/*
    umask 077
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --username="$user" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 --locale=C -D "$PGDATA"
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    if [ "$database" != postgres ]; then
        echo "CREATE DATABASE \"$database\"" | postgres --single -D "$PGDATA" postgres >/dev/null
    fi
fi
unset POSTGRES_PASSWORD
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
