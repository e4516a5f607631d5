# One image for every role; DAIRA_ROLE says which. How it is built and run: docs/deployment.md
# Pin it in your own builds: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim-trixie

# Tesseract's models beside the English one, which comes with the packages. Debian's are the same "fast" kind.
FROM ${PYTHON_IMAGE} AS languages
# As in the names of Debian's packages tesseract-ocr-…; `chi-sim` for the language `chi_sim`.
ARG LANGUAGES="deu fra ita nld pol por spa"
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# No versions: Debian keeps none but the last, and nothing of these packages is run.
# hadolint ignore=DL3008
RUN apt-get update; \
    read -ra names <<< "${LANGUAGES}"; \
    apt-get install --yes --no-install-recommends "${names[@]/#/tesseract-ocr-}"; \
    rm -rf /var/lib/apt/lists/*; \
    mkdir /models; \
    find /usr/share/tesseract-ocr -name '*.traineddata' -exec cp {} /models/ \;

FROM ${PYTHON_IMAGE} AS packages
# `rapidocr` brings the second engine: 296 MB more.
ARG REQUIREMENTS=production
WORKDIR /source
COPY requirements/build.txt requirements/${REQUIREMENTS}.txt requirements/
# Without pip in what is shipped. Wheels alone: building one would run code that no hash vouches for.
RUN python3 -m venv --without-pip /opt/daira && \
    python3 -m pip --python /opt/daira/bin/python install --no-cache-dir --disable-pip-version-check \
        --require-hashes --only-binary=:all: -r "requirements/${REQUIREMENTS}.txt"

# Apart from the packages, so that a new version of the program is a small layer.
FROM packages AS program
RUN python3 -m venv /build && \
    /build/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes --only-binary=:all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE alembic.ini ./
COPY alembic alembic
COPY app app
RUN /build/bin/pip wheel --no-cache-dir --disable-pip-version-check \
        --no-deps --no-build-isolation --wheel-dir /wheels . && \
    python3 -m pip --python /opt/daira/bin/python install --no-cache-dir --disable-pip-version-check \
        --no-deps --no-index --no-warn-script-location --prefix /program /wheels/*.whl

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Daira" \
      org.opencontainers.image.description="Self-hosted, multi-tenant document processing that never loses a job" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# By number, for Kubernetes' runAsNonRoot. No VOLUME: it would leave a nameless one behind wherever S3 is used;
# a named one that is mounted there takes over the owner.
RUN groupadd --gid 10001 daira && \
    useradd --uid 10001 --gid 10001 --home-dir /var/lib/daira --no-create-home --shell /usr/sbin/nologin daira && \
    install --directory --owner daira --group daira --mode 0750 /var/lib/daira
COPY --from=packages /opt/daira /opt/daira
COPY --from=languages /models/ /opt/daira/share/tessdata/
COPY --from=program /program /opt/daira
# Production unless told otherwise: a container without settings names what is missing instead of starting anything.
ENV PATH=/opt/daira/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    DAIRA_ENV=production \
    DAIRA_HOST=0.0.0.0 \
    DAIRA_PORT=8000 \
    DAIRA_DATA_DIR=/var/lib/daira
# Nobody but root can write here: no `.env` is read that the program could have written.
WORKDIR /opt/daira
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as http; http.urlopen(f'http://127.0.0.1:{os.environ[\"DAIRA_PORT\"]}/healthz', timeout=4)"]
# No shell and no init above it: SIGTERM arrives, and every child that it starts is its own to reap.
ENTRYPOINT ["daira"]
CMD ["serve"]
