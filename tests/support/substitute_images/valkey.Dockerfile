# Debian's Valkey in place of the official image.
ARG BASE
FROM ${BASE}
RUN apt-get update && \
    apt-get install --yes --no-install-recommends valkey-server valkey-tools && \
    rm -rf /var/lib/apt/lists/*
