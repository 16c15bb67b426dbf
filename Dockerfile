# The identity service in a container: its data in /data, its compiled code made while the image is built.
# `python -m release.container` does these steps without Docker.
FROM python:3.12-slim
WORKDIR /opt/armillary
COPY pyproject.toml README.md LICENSE ./
COPY docs/licences.md ./docs/
COPY src ./src
# hadolint ignore=DL3013
RUN useradd --system --create-home --uid 10001 armillary \
 && mkdir /data && chown armillary /data \
 && pip install --no-cache-dir ".[service]"
USER 10001
ENV NUMBA_CACHE_DIR=/home/armillary/.numba
# for `token` as well as `serve`
ENV ARMILLARY_DATA=/data
RUN armillary warmup --models links,ddp --quiet
VOLUME /data
EXPOSE 8750
# A token first: docker run --rm -v armillary:/data armillary token create me --scope admin
ENTRYPOINT ["armillary"]
CMD ["serve", "--host", "0.0.0.0", "--allowed-hosts", "localhost"]
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8750/readyz', timeout=5)"]
