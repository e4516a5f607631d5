# Debian's own package: there is no image by PgBouncer's authors.
ARG DEBIAN_IMAGE=debian:trixie-slim
FROM ${DEBIAN_IMAGE}
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends pgbouncer && \
    rm -rf /var/lib/apt/lists/*
USER postgres
ENTRYPOINT ["pgbouncer"]
CMD ["/etc/pgbouncer/pgbouncer.ini"]
