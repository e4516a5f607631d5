# Debian's Postgres in place of the official image.
ARG BASE
FROM ${BASE}
RUN apt-get update && \
    apt-get install --yes --no-install-recommends postgresql postgresql-client && \
    rm -rf /var/lib/apt/lists/* /var/lib/postgresql/*
COPY postgres.sh /
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/postgres.sh"]
