# S3 and SQS without Amazon: the server of Daira's tests, as they pin it. It knows all credentials as right.
ARG PYTHON_IMAGE=python:3.13-slim-trixie
FROM ${PYTHON_IMAGE}
COPY ministack.txt /
RUN python3 -m venv /opt/ministack && \
    /opt/ministack/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /ministack.txt && \
    install --directory --owner 10001 /objects
ENV PATH=/opt/ministack/bin:$PATH
USER 10001:10001
ENTRYPOINT ["ministack"]
