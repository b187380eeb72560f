//! The table: the options of the reference in the order in which Berth's are written.

use Kind::{Boolean, Choice, Integer, List, Many, Text};
use Mapping::{Copied, Derived, Limited, Lost, Obsolete, Refused, Unneeded};

use super::option::{DEFAULT, KEYSTONE, Kind, KnownOption, Mapping, options};

const CACHE: &str =
    "Berth keeps validated tokens in its own memory, in one cache for the whole server";
const CHECKED: &str = "Keystone validates every token";
const CREDENTIALS: &str =
    "set `auth_type`, `auth_url`, `username`, `password`, the project and the domains";
const DOMAINS: &str = "the default for the user's and the project's domain";
const FORMAT: &str = "`log-format` determines the format of log lines";
const LOG_FILE: &str = "Berth logs to standard error; let systemd, the container runtime or a \
                        redirection store the log";
const NO_FILES: &str = "Berth writes no log files";
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";
const NO_OWNER: &str =
    "consumers that clients claim before microversion 1.8, without an owner, get zeros";
const ORIGINS: &str = "Berth uses the reference's defaults for every allowed origin";
const POSTGRESQL: &str = "Berth keeps its data in PostgreSQL";
const PROFILER: &str = "Berth does not support osprofiler";
const PYTHON: &str = "it concerns the reference's own files";
const RATE: &str = "Berth does not limit the rate of log lines";
const RECONNECT: &str = "Berth replaces connections that the server has closed";
const REMOTE: &str =
    "it is for rules that query another server (`http:`), which Berth does not support";
const REVALIDATED: &str = "Berth validates a token again when it leaves the cache";
const SCOPE: &str = "Berth's own token is scoped to a project or the system; set \
                     `project_name` and its domain, as for other services";
const SYSLOG: &str =
    "Berth logs to standard error; systemd's journal can forward the log to syslog";
const U32: i64 = u32::MAX as i64;

pub(super) const OPTIONS: &[KnownOption] = options! {
    [DEFAULT]
    "debug": Boolean, default "false" => Derived("log", "true becomes `debug`");
    "default_log_levels": List => Derived("log", "the levels of modules that have an equivalent: \
        placement, keystonemiddleware, oslo_policy, sqlalchemy");
    "use_json": Boolean, default "false" => Derived("log-format", "true becomes `json`");
    "log_file" | "logfile": Text => Lost(LOG_FILE);
    "log_dir" | "logdir": Text => Lost(LOG_FILE);
    "use_syslog": Boolean, default "false" => Lost(SYSLOG);
    "use_journal": Boolean, default "false" => Unneeded(SYSLOG);
    "syslog_log_facility": Text, default "LOG_USER" => Lost(SYSLOG);
    "use_stderr": Boolean, default "false" => Unneeded("Berth always logs to standard error");
    "log_color": Boolean, default "false" => Unneeded("Berth colours log lines on a terminal");
    "log_config_append" | "log-config" | "log_config": Text =>
        Lost("it names a file for Python's logging; use `log` instead");
    "log_date_format": Text, default "%Y-%m-%d %H:%M:%S" => Unneeded(FORMAT);
    "logging_context_format_string": Text => Unneeded(FORMAT);
    "logging_default_format_string": Text => Unneeded(FORMAT);
    "logging_debug_format_suffix": Text => Unneeded(FORMAT);
    "logging_exception_prefix": Text => Unneeded(FORMAT);
    "logging_user_identity_format": Text => Unneeded(FORMAT);
    "instance_format": Text, default "[instance: %(uuid)s] " => Unneeded(FORMAT);
    "instance_uuid_format": Text, default "[instance: %(uuid)s] " => Unneeded(FORMAT);
    "log_rotate_interval": Integer, default "1" => Unneeded(NO_FILES);
    "log_rotate_interval_type": Text, default "days" => Unneeded(NO_FILES);
    "log_rotation_type": Text, default "none" => Unneeded(NO_FILES);
    "max_logfile_count": Integer, default "30" => Unneeded(NO_FILES);
    "max_logfile_size_mb": Integer, default "200" => Unneeded(NO_FILES);
    "watch_log_file": Boolean, default "false" => Obsolete(NO_FILES);
    "rate_limit_interval": Integer, default "0" => Lost(RATE);
    "rate_limit_burst": Integer, default "0" => Lost(RATE);
    "rate_limit_except_level": Text, default "CRITICAL" => Unneeded(RATE);
    "publish_errors": Boolean, default "false" => Lost("Berth sends no notifications");
    "fatal_deprecations": Boolean, default "false" => Unneeded("it is for the reference's developers");
    "log_options": Boolean, default "true" => Unneeded("`berth config check` prints the options");
    "tempdir": Text => Unneeded(PYTHON);
    "pybasedir": Text => Unneeded(PYTHON);
    "state_path": Text, default "$pybasedir" => Unneeded(PYTHON);
    "config_source": List, default "" => Refused("Berth reads no other configuration sources; put \
        their options into a file and pass it after this one");
    "verbose": Boolean => Obsolete("use `log`");

    ["api"]
    "auth_strategy" | "DEFAULT.auth_strategy": Choice(&["keystone", "noauth2"]), default "keystone" =>
        Derived("auth", "always written, because the defaults differ");

    ["placement"]
    "randomize_allocation_candidates": Boolean, default "false" =>
        Derived("candidate-order", "true becomes `random`");
    "max_allocation_candidates": Integer, default "-1" =>
        Limited("max-allocation-candidates", -1, i64::MAX);
    "allocation_candidates_generation_strategy":
        Choice(&["depth-first", "breadth-first"]), default "depth-first" =>
        Copied("allocation-candidates-generation-strategy");
    "incomplete_consumer_project_id": Text, default NO_ID => Lost(NO_OWNER);
    "incomplete_consumer_user_id": Text, default NO_ID => Lost(NO_OWNER);
    "allocation_conflict_retry_count": Integer, default "10" =>
        Unneeded("claims on the same provider wait for each other instead of failing");
    "policy_file": Text => Obsolete("use `[oslo_policy]` `policy_file`");

    ["workarounds"]
    "optimize_for_wide_provider_trees": Boolean, default "false" =>
        Unneeded("the search always prunes what cannot fit");

    ["placement_database"]
    "connection": Text => Derived("database-url", "`postgresql+DRIVER://` becomes `postgres://`; any \
        other database is refused unless `--database-url` names Berth's PostgreSQL");
    "connection_parameters": Text, default "" =>
        Derived("database-url", "added to the parameters of the URL");
    "max_pool_size": Integer => Derived("database-connections", "at least 10 if `max_overflow` lets \
        the pool grow to that size, at most 1000");
    "max_overflow": Integer =>
        Derived("database-connections", "Berth's pool does not grow; see `max_pool_size`");
    "pool_timeout": Integer => Unneeded("requests wait for a connection from a pool of fixed size");
    "connection_recycle_time": Integer, default "3600" => Unneeded(RECONNECT);
    "slave_connection": Text =>
        Lost("Berth serves reads from memory; it does not connect to a second database");
    "max_retries": Integer, default "10" =>
        Lost("`database-wait` limits how long Berth waits for the database at the start");
    "retry_interval": Integer, default "10" => Unneeded("Berth chooses the interval");
    "sync_on_startup": Boolean, default "false" =>
        Lost("run `berth db migrate` with the same --database-url before you start the server");
    "connection_debug": Integer, default "0" =>
        Lost("set `log = \"info,sqlx=debug\"` to log SQL statements");
    "connection_trace": Boolean, default "false" => Unneeded("it concerns Python's call stacks");
    "mysql_sql_mode": Text, default "TRADITIONAL" => Unneeded(POSTGRESQL);
    "sqlite_synchronous": Boolean, default "true" => Unneeded(POSTGRESQL);
    "idle_timeout": Integer => Obsolete(RECONNECT);

    [KEYSTONE]
    "auth_section": Text =>
        Derived("keystone-auth-url", "the credentials are read from the section that it names");
    movable "auth_type" | "auth_plugin": Text => Derived("keystone-password",
        "or `keystone-application-credential-id`; any type but password, v3password and \
        v3applicationcredential is refused");
    movable "auth_url": Text => Copied("keystone-auth-url");
    movable "username" | "user-name" | "user_name": Text => Copied("keystone-username");
    movable "user_id": Text => Refused("Berth identifies its user by `username` and the user's domain");
    movable "password": Text => Copied("keystone-password");
    movable "user_domain_name": Text => Copied("keystone-user-domain-name");
    movable "user_domain_id": Text => Copied("keystone-user-domain-id");
    movable "project_name" | "tenant-name" | "tenant_name": Text => Copied("keystone-project-name");
    movable "project_id" | "tenant-id" | "tenant_id": Text =>
        Refused("Berth identifies its project by `project_name` and the project's domain");
    movable "project_domain_name": Text => Copied("keystone-project-domain-name");
    movable "project_domain_id": Text => Copied("keystone-project-domain-id");
    movable "default_domain_name": Text => Derived("keystone-user-domain-name", DOMAINS);
    movable "default_domain_id": Text => Derived("keystone-user-domain-id", DOMAINS);
    movable "system_scope": Text => Copied("keystone-system-scope");
    movable "trust_id": Text => Refused(SCOPE);
    movable "domain_id": Text => Refused(SCOPE);
    movable "domain_name": Text => Refused(SCOPE);
    movable "application_credential_id": Text => Copied("keystone-application-credential-id");
    movable "application_credential_name": Text => Unneeded("the id identifies the credential");
    movable "application_credential_secret": Text => Copied("keystone-application-credential-secret");
    "www_authenticate_uri": Text => Copied("keystone-www-authenticate-uri");
    "interface": Text, default "internal" => Copied("keystone-interface");
    "region_name": Text => Copied("keystone-region-name");
    "cafile": Text => Copied("keystone-ca-file");
    "certfile": Text => Copied("keystone-cert-file");
    "keyfile": Text => Copied("keystone-key-file");
    "insecure": Boolean, default "false" => Copied("keystone-insecure");
    "http_connect_timeout": Integer => Limited("keystone-timeout", 1, U32);
    "http_request_max_retries": Integer, default "3" =>
        Unneeded("Berth repeats a request without a response within `keystone-timeout`");
    "token_cache_time": Integer, default "300" =>
        Derived("keystone-token-cache-time", "-1 becomes `0`, which disables the cache");
    "service_token_roles": List, default "service" => Copied("keystone-service-token-roles");
    "service_token_roles_required": Boolean, default "true" =>
        Copied("keystone-service-token-roles-required");
    "service_type": Choice(&["placement"]), default "placement" =>
        Refused("access rules of application credentials name Berth as `placement`");
    "delay_auth_decision": Boolean, default "false" => Refused("it admits requests without a valid \
        token; remove it, because Berth answers `GET /` without a token anyway");
    "enforce_token_bind": Choice(&["disabled", "permissive"]), default "permissive" =>
        Refused("Keystone no longer binds tokens, and Berth checks no binding; remove it");
    "auth_version": Choice(&["v3", "v3.0", "3", "3.0"]) =>
        Refused("Berth uses version 3 of Keystone's API");
    "include_service_catalog": Boolean, default "true" =>
        Unneeded("Berth does not use the catalogs of callers");
    "cache": Text => Unneeded(CACHE);
    "memcached_servers" | "memcache_servers": List => Unneeded(CACHE);
    "memcache_security_strategy": Text, default "None" => Unneeded(CACHE);
    "memcache_secret_key": Text => Unneeded(CACHE);
    "memcache_tls_enabled": Boolean, default "false" => Unneeded(CACHE);
    "memcache_tls_cafile": Text => Unneeded(CACHE);
    "memcache_tls_certfile": Text => Unneeded(CACHE);
    "memcache_tls_keyfile": Text => Unneeded(CACHE);
    "memcache_tls_allowed_ciphers": Text => Unneeded(CACHE);
    "memcache_pool_dead_retry": Integer, default "300" => Unneeded(CACHE);
    "memcache_pool_maxsize": Integer, default "10" => Unneeded(CACHE);
    "memcache_pool_socket_timeout": Integer, default "3" => Unneeded(CACHE);
    "memcache_pool_unused_timeout": Integer, default "60" => Unneeded(CACHE);
    "memcache_pool_conn_get_timeout": Integer, default "10" => Unneeded(CACHE);
    "memcache_use_advanced_pool": Boolean, default "true" => Unneeded(CACHE);
    "memcache_sasl_enabled": Boolean, default "false" => Unneeded(CACHE);
    "memcache_username": Text => Unneeded(CACHE);
    "memcache_password": Text => Unneeded(CACHE);
    "auth_uri": Text => Obsolete("use `www_authenticate_uri`");
    "identity_uri": Text => Obsolete(CREDENTIALS);
    "auth_host": Text => Obsolete(CREDENTIALS);
    "auth_port": Text => Obsolete(CREDENTIALS);
    "auth_protocol": Text => Obsolete(CREDENTIALS);
    "auth_admin_prefix": Text => Obsolete(CREDENTIALS);
    "admin_user": Text => Obsolete(CREDENTIALS);
    "admin_password": Text => Obsolete(CREDENTIALS);
    "admin_tenant_name": Text => Obsolete(CREDENTIALS);
    "admin_token": Text => Obsolete(CREDENTIALS);
    "signing_dir": Text => Obsolete(CHECKED);
    "hash_algorithms": Text => Obsolete(CHECKED);
    "check_revocations_for_cached": Text => Obsolete(REVALIDATED);
    "revocation_cache_time": Text => Obsolete(REVALIDATED);

    ["oslo_policy"]
    "policy_file": Text, default "policy.yaml" => Derived("policy-file", "the file that the reference \
        finds: in a `--config-dir`, beside the files, or in the default directories");
    "policy_dirs": Many, default "policy.d" =>
        Derived("policy-dirs", "the directories that the reference finds, as for `policy_file`");
    "policy_default_rule": Choice(&["default"]), default "default" =>
        Refused("rename the rule in the policy files");
    "enforce_new_defaults": Boolean, default "true" => Copied("enforce-new-defaults");
    "enforce_scope": Boolean =>
        Obsolete("the reference and Berth always enforce the scope of a token");
    "remote_content_type": Text, default "application/x-www-form-urlencoded" => Unneeded(REMOTE);
    "remote_ssl_verify_server_crt": Boolean, default "false" => Unneeded(REMOTE);
    "remote_ssl_ca_crt_file": Text => Unneeded(REMOTE);
    "remote_ssl_client_crt_file": Text => Unneeded(REMOTE);
    "remote_ssl_client_key_file": Text => Unneeded(REMOTE);
    "remote_timeout": Text, default "60" => Unneeded(REMOTE);

    ["cors"]
    "allowed_origin": List => Copied("cors-allowed-origin");
    "allow_credentials": Boolean, default "true" => Lost(ORIGINS);
    "max_age": Integer, default "3600" => Lost(ORIGINS);
    "allow_methods": List, default "GET,PUT,POST,DELETE,PATCH" => Lost(ORIGINS);
    "allow_headers": List, default "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,\
        X-Service-Catalog,X-User-Id,X-Tenant-Id,OpenStack-API-Version" => Lost(ORIGINS);
    "expose_headers": List, default "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,\
        X-Service-Token,OpenStack-API-Version" => Lost(ORIGINS);

    ["oslo_middleware"]
    "enable_proxy_headers_parsing": Boolean, default "false" => Lost("the reference trusts these \
        headers from everybody, Berth only from the proxies in `trusted-proxies`; until you set that \
        option, Berth ignores them");

    ["profiler"]
    "enabled" | "profiler_enabled": Boolean, default "false" => Lost(PROFILER);
    "trace_sqlalchemy": Boolean, default "false" => Unneeded(PROFILER);
    "trace_requests": Boolean, default "false" => Unneeded(PROFILER);
    "hmac_keys": Text, default "SECRET_KEY" => Unneeded(PROFILER);
    "connection_string": Text, default "messaging://" => Unneeded(PROFILER);
    "es_doc_type": Text, default "notification" => Unneeded(PROFILER);
    "es_scroll_time": Text, default "2m" => Unneeded(PROFILER);
    "es_scroll_size": Integer, default "10000" => Unneeded(PROFILER);
    "socket_timeout": Text, default "0.1" => Unneeded(PROFILER);
    "sentinel_service_name": Text, default "mymaster" => Unneeded(PROFILER);
    "filter_error_trace": Boolean, default "false" => Unneeded(PROFILER);

    ["profiler_jaeger"]
    "*": Text => Unneeded(PROFILER);

    ["profiler_otlp"]
    "*": Text => Unneeded(PROFILER);

    ["cache"]
    "*": Text => Unneeded("Berth keeps validated tokens in its own memory");

    ["oslo_concurrency"]
    "*": Text => Unneeded("Berth takes its locks in the database");
};
