# The images of Berth. `tools/image` builds them, with the commit and its date:
#
#   tools/image                  # berth: with a PostgreSQL of its own
#   tools/image berth-slim       # berth-slim: the program alone, for a database elsewhere
#
# Without options, Berth keeps its data in a private PostgreSQL in the volume /data:
#
#   docker run -p 127.0.0.1:8778:8778 -p 127.0.0.1:8090:8090 -e BERTH_ALLOW_NOAUTH=true -v berth:/data berth
#
# With a database of your own, either image does. BERTH_DATABASE_MIGRATE migrates it at the start;
# without, run `db migrate` before:
#
#   docker run -p 127.0.0.1:8778:8778 -p 127.0.0.1:8090:8090 -e BERTH_ALLOW_NOAUTH=true \
#       -e BERTH_DATABASE_URL=postgres://berth:...@db.example.org/berth -e BERTH_DATABASE_MIGRATE=true berth-slim
#
# Inside a container the server listens on all addresses. With noauth2 it believes every caller, so it
# starts only when told with BERTH_ALLOW_NOAUTH=true that the port is published to trusted ones only.

ARG BUILDER_IMAGE=docker.io/library/rust:1-bookworm
ARG RUNTIME_IMAGE=docker.io/library/debian:bookworm-slim
# The C library, the certificates of authorities, and no shell.
ARG SLIM_IMAGE=gcr.io/distroless/cc-debian12

FROM ${BUILDER_IMAGE} AS build
WORKDIR /src
# The libraries, in a layer that stays as long as Cargo.toml and Cargo.lock do: an empty program stands
# in for Berth.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
RUN mkdir src \
 && echo 'fn main() {}' >src/main.rs \
 && touch src/lib.rs \
 && cargo build --release --locked --bin berth
COPY build.rs ./
COPY .sqlx .sqlx
COPY migrations migrations
COPY src src
COPY templates templates
# What `berth --version` says: the image is built without the repository's .git.
ARG BERTH_BUILD_COMMIT
ARG SOURCE_DATE_EPOCH
# cargo compiles what is newer than what it has compiled before.
RUN touch src/main.rs src/lib.rs build.rs \
 && cargo build --release --locked --bin berth \
 && mv target/release/berth /berth \
 && rm -rf target

FROM ${SLIM_IMAGE} AS berth-slim
LABEL org.opencontainers.image.title="Berth" \
      org.opencontainers.image.description="Resource placement service with the OpenStack Placement API" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY LICENSE /usr/share/licenses/berth/LICENSE
COPY --from=build /berth /usr/local/bin/berth
ENV BERTH_LISTEN=0.0.0.0:8778 BERTH_PLANNER_LISTEN=0.0.0.0:8090
EXPOSE 8778 8090
USER 42424:42424
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/usr/local/bin/berth", "health"]
ENTRYPOINT ["/usr/local/bin/berth"]
CMD ["serve"]

FROM ${RUNTIME_IMAGE} AS berth
LABEL org.opencontainers.image.title="Berth" \
      org.opencontainers.image.description="Resource placement service with the OpenStack Placement API, and PostgreSQL" \
      org.opencontainers.image.licenses="Apache-2.0"
# PostgreSQL's package would make a cluster of its own that nobody needs. The certificates are those of
# the authorities that vouch for a Keystone that is asked by https.
RUN install --directory /etc/postgresql-common \
 && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates postgresql-15 \
 && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 42424 berth \
 && useradd --uid 42424 --gid berth --home-dir /data --no-create-home --shell /usr/sbin/nologin berth \
 && install --directory --owner=berth --group=berth --mode=0700 /data
COPY LICENSE /usr/share/licenses/berth/LICENSE
COPY --from=build /berth /usr/local/bin/berth
ENV BERTH_LISTEN=0.0.0.0:8778 BERTH_PLANNER_LISTEN=0.0.0.0:8090 BERTH_DATA_DIR=/data
EXPOSE 8778 8090
VOLUME /data
USER 42424:42424
# The first start makes a cluster, and one after a crash recovers: both take a while.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s CMD ["/usr/local/bin/berth", "health"]
ENTRYPOINT ["/usr/local/bin/berth"]
CMD ["serve"]
