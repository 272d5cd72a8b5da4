# The countersign service as a container image: one binary, no root, a read-only file system.
#
#   docker build -t countersign .
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges -v countersign:/data \
#     -p 127.0.0.1:8787:8787 countersign serve --behind-proxy --host localhost:8787
#
# docs/install.md says what stands in front of it, and how the first person signs in.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build --profile dist --locked --package countersign-server

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin countersign \
    && install --directory --owner countersign --group countersign --mode 700 /data
COPY --from=build /build/target/dist/countersign /usr/local/bin/countersign
USER 10001
WORKDIR /data
VOLUME /data
# Within a container, only the container's own network reaches this address. The service still refuses it without TLS
# or `--behind-proxy`.
ENV COUNTERSIGN_LISTEN=0.0.0.0:8787 \
    COUNTERSIGN_STORE=/data/countersign.db
EXPOSE 8787
# Asks on plain HTTP. With `--tls-certificate`, replace it by a check of your own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8787 && printf 'GET /readyz HTTP/1.0\\r\\nHost: localhost:8787\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["countersign"]
CMD ["serve"]
