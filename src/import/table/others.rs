//! Options of the libraries around the service: policy, CORS, proxies, profiling.

use super::option::{Fate, Kind, KnownOption, known};
use Fate::{Bounded, Former, Key, Lost, Made, Needless};
use Kind::{Boolean, Integer, List, Many, Text};

const POLICY: &str = "oslo_policy";
const REMOTE: &str = "it is for rules that ask another server (`http:`), which Berth does not have";
const PROFILER: &str = "Berth has no osprofiler";

const fn profiler(name: &'static str, kind: Kind) -> KnownOption {
    known("profiler", name, kind, Needless(PROFILER))
}

pub(super) const OPTIONS: &[KnownOption] = &[
    known(
        POLICY,
        "policy_file",
        Text,
        Made(
            "policy-file",
            "the file that the reference finds: in a `--config-dir`, beside the files, or where \
             they are looked for by default",
        ),
    )
    .preset("policy.yaml"),
    known(
        POLICY,
        "policy_dirs",
        Many,
        Made("policy-dirs", "the directories that the reference finds, as for `policy_file`"),
    )
    .preset("policy.d"),
    known(POLICY, "policy_default_rule", Text, Key("policy-default-rule")).preset("default"),
    known(POLICY, "enforce_new_defaults", Boolean, Key("enforce-new-defaults")).preset("true"),
    known(
        POLICY,
        "enforce_scope",
        Boolean,
        Former("the scope of a token is always enforced, there and here"),
    ),
    known(POLICY, "remote_content_type", Text, Needless(REMOTE))
        .preset("application/x-www-form-urlencoded"),
    known(POLICY, "remote_ssl_verify_server_crt", Boolean, Needless(REMOTE)).preset("false"),
    known(POLICY, "remote_ssl_ca_crt_file", Text, Needless(REMOTE)),
    known(POLICY, "remote_ssl_client_crt_file", Text, Needless(REMOTE)),
    known(POLICY, "remote_ssl_client_key_file", Text, Needless(REMOTE)),
    known(POLICY, "remote_timeout", Text, Needless(REMOTE)).preset("60"),
    known("cors", "allowed_origin", List, Key("cors-allowed-origin")),
    known("cors", "allow_credentials", Boolean, Key("cors-allow-credentials")).preset("true"),
    known("cors", "max_age", Integer, Bounded("cors-max-age", 0, u32::MAX as i64)).preset("3600"),
    known("cors", "allow_methods", List, Key("cors-allow-methods"))
        .preset("GET,PUT,POST,DELETE,PATCH"),
    known("cors", "allow_headers", List, Key("cors-allow-headers")).preset(
        "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,\
         X-Tenant-Id,OpenStack-API-Version",
    ),
    known("cors", "expose_headers", List, Key("cors-expose-headers")).preset(
        "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,OpenStack-API-Version",
    ),
    known(
        "oslo_middleware",
        "enable_proxy_headers_parsing",
        Boolean,
        Lost(
            "the reference believes these headers from everybody, Berth only from addresses it is \
             told: say `trusted-proxies = \"ADDRESS,NETWORK\"`; until then it ignores them",
        ),
    )
    .preset("false"),
    known("profiler", "enabled", Boolean, Lost(PROFILER))
        .preset("false")
        .also(&[("profiler", "profiler_enabled")]),
    profiler("trace_sqlalchemy", Boolean).preset("false"),
    profiler("trace_requests", Boolean).preset("false"),
    profiler("hmac_keys", Text).preset("SECRET_KEY"),
    profiler("connection_string", Text).preset("messaging://"),
    profiler("es_doc_type", Text).preset("notification"),
    profiler("es_scroll_time", Text).preset("2m"),
    profiler("es_scroll_size", Integer).preset("10000"),
    profiler("socket_timeout", Text).preset("0.1"),
    profiler("sentinel_service_name", Text).preset("mymaster"),
    profiler("filter_error_trace", Boolean).preset("false"),
    known("profiler_jaeger", "*", Text, Needless(PROFILER)),
    known("profiler_otlp", "*", Text, Needless(PROFILER)),
    known("cache", "*", Text, Needless("Berth keeps validated tokens in its own memory")),
    known("oslo_concurrency", "*", Text, Needless("Berth takes its locks in the database")),
];
