# The image of Berth.
#
#   docker build -t berth .
#   docker run -p 127.0.0.1:8778:8778 -p 127.0.0.1:8090:8090 -e BERTH_ALLOW_NOAUTH=true \
#       -e BERTH_DATABASE_URL=postgres://berth:...@db.example.org/berth berth
#   docker run -e BERTH_DATABASE_URL=... berth db migrate
#
# Inside a container the server listens on all addresses. With noauth2 it believes every caller, so it
# starts only when told with BERTH_ALLOW_NOAUTH=true that the port is published to trusted ones only.
#
# The image has no PostgreSQL: give it a database. For a trial, the other target has one, and keeps
# its data in the volume:
#
#   docker build -t berth-standalone --target berth-standalone .
#   docker run -p 127.0.0.1:8778:8778 -p 127.0.0.1:8090:8090 -e BERTH_ALLOW_NOAUTH=true \
#       -v berth:/var/lib/berth berth-standalone
#
# With buildah or podman, add --format docker: the OCI format has no health check.

ARG BUILDER_IMAGE=docker.io/library/rust:1-bookworm
ARG RUNTIME_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${BUILDER_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY .cargo .cargo
COPY .sqlx .sqlx
COPY migrations migrations
COPY src src
# What `berth --version` says; the image is built without the repository's .git:
#   --build-arg BERTH_BUILD_COMMIT=$(git rev-parse HEAD)
#   --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ARG BERTH_BUILD_COMMIT
ARG SOURCE_DATE_EPOCH
RUN cargo build --profile dist --locked --bin berth \
 && mv target/dist/berth /berth \
 && rm -rf target

FROM ${RUNTIME_IMAGE} AS runtime
# Those who vouch for a Keystone that is asked by https.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 42424 berth \
 && useradd --uid 42424 --gid berth --home-dir /var/lib/berth --no-create-home \
            --shell /usr/sbin/nologin berth \
 && install --directory --owner=berth --group=berth --mode=0700 /var/lib/berth
COPY --from=build /berth /usr/local/bin/berth
ENV BERTH_LISTEN=0.0.0.0:8778 BERTH_PLANNER_LISTEN=0.0.0.0:8090 BERTH_DATA_DIR=/var/lib/berth
EXPOSE 8778 8090
ENTRYPOINT ["berth"]
CMD ["serve"]

FROM runtime AS berth-standalone
# The package would make a cluster of its own that nobody needs.
RUN install --directory /etc/postgresql-common \
 && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql-15 \
 && rm -rf /var/lib/apt/lists/*
VOLUME /var/lib/berth
USER 42424:42424
# The first start makes a cluster, and one after a crash recovers: both take a while.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s CMD ["berth", "health"]

FROM runtime AS berth
VOLUME /var/lib/berth
USER 42424:42424
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["berth", "health"]
