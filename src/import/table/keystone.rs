//! Options of `[keystone_authtoken]`: of the middleware that validates tokens, and of how it shows
//! Keystone who it is. The latter move to where `auth_section` says.

use super::option::{Fate, KEYSTONE, Kind, KnownOption, known};
use Fate::{Bounded, Former, Key, Made, Needless, Refused};
use Kind::{Boolean, Choice, Integer, List, Text};

const CACHE: &str =
    "Berth keeps validated tokens in its own memory, one cache for the whole server";
const SCOPE: &str = "Berth's own token is for a project, a trust or the system; say `project_name` and \
                     its domain, as other services do";
const V3: &str =
    "give `auth_type`, `auth_url`, `username`, `password` and their domains and project";
const U32: i64 = u32::MAX as i64;

/// An option of the credentials.
const fn credential(name: &'static str, fate: Fate) -> KnownOption {
    known(KEYSTONE, name, Text, fate).movable()
}

const fn cache(name: &'static str, kind: Kind) -> KnownOption {
    known(KEYSTONE, name, kind, Needless(CACHE))
}

const fn former(name: &'static str, words: &'static str) -> KnownOption {
    known(KEYSTONE, name, Text, Former(words))
}

pub(super) const OPTIONS: &[KnownOption] = &[
    known(
        KEYSTONE,
        "auth_section",
        Text,
        Made("keystone-auth-type", "the credentials are read from the section it names"),
    ),
    credential(
        "auth_type",
        Made(
            "keystone-auth-type",
            "any but password, v3password and v3applicationcredential is refused",
        ),
    )
    .also(&[(KEYSTONE, "auth_plugin")]),
    credential("auth_url", Key("keystone-auth-url")),
    credential("username", Key("keystone-username"))
        .also(&[(KEYSTONE, "user-name"), (KEYSTONE, "user_name")]),
    credential("user_id", Key("keystone-user-id")),
    credential("password", Key("keystone-password")),
    credential("user_domain_name", Key("keystone-user-domain-name")),
    credential("user_domain_id", Key("keystone-user-domain-id")),
    credential("project_name", Key("keystone-project-name"))
        .also(&[(KEYSTONE, "tenant-name"), (KEYSTONE, "tenant_name")]),
    credential("project_id", Key("keystone-project-id"))
        .also(&[(KEYSTONE, "tenant-id"), (KEYSTONE, "tenant_id")]),
    credential("project_domain_name", Key("keystone-project-domain-name")),
    credential("project_domain_id", Key("keystone-project-domain-id")),
    credential(
        "default_domain_name",
        Made("keystone-user-domain-name", "for the user and the project, where they have none"),
    ),
    credential(
        "default_domain_id",
        Made("keystone-user-domain-id", "for the user and the project, where they have none"),
    ),
    credential("system_scope", Key("keystone-system-scope")),
    credential("trust_id", Key("keystone-trust-id")),
    credential("domain_id", Refused(SCOPE)),
    credential("domain_name", Refused(SCOPE)),
    credential("application_credential_id", Key("keystone-application-credential-id")),
    credential("application_credential_name", Key("keystone-application-credential-name")),
    credential("application_credential_secret", Key("keystone-application-credential-secret")),
    known(KEYSTONE, "www_authenticate_uri", Text, Key("keystone-www-authenticate-uri")),
    known(KEYSTONE, "interface", Text, Key("keystone-interface")).preset("internal"),
    known(KEYSTONE, "region_name", Text, Key("keystone-region-name")),
    known(KEYSTONE, "cafile", Text, Key("keystone-ca-file")),
    known(KEYSTONE, "certfile", Text, Key("keystone-cert-file")),
    known(KEYSTONE, "keyfile", Text, Key("keystone-key-file")),
    known(KEYSTONE, "insecure", Boolean, Key("keystone-insecure")).preset("false"),
    known(KEYSTONE, "http_connect_timeout", Integer, Bounded("keystone-timeout", 1, U32)),
    known(KEYSTONE, "http_request_max_retries", Integer, Bounded("keystone-retries", 0, U32))
        .preset("3"),
    known(
        KEYSTONE,
        "token_cache_time",
        Integer,
        Made("keystone-token-cache-time", "-1 is `0`: no cache"),
    )
    .preset("300"),
    known(KEYSTONE, "service_token_roles", List, Key("keystone-service-token-roles"))
        .preset("service"),
    known(
        KEYSTONE,
        "service_token_roles_required",
        Boolean,
        Key("keystone-service-token-roles-required"),
    )
    .preset("true"),
    known(KEYSTONE, "service_type", Text, Key("keystone-service-type")),
    known(
        KEYSTONE,
        "delay_auth_decision",
        Boolean,
        Refused(
            "it lets requests without a valid token in; remove it, Berth answers `GET /` without \
             one anyway",
        ),
    )
    .preset("false"),
    known(
        KEYSTONE,
        "enforce_token_bind",
        Choice(&["disabled", "permissive"]),
        Refused("Keystone binds no tokens any more, and Berth checks no binding; remove it"),
    )
    .preset("permissive"),
    known(
        KEYSTONE,
        "auth_version",
        Choice(&["v3", "v3.0", "3", "3.0"]),
        Refused("Berth speaks version 3 of Keystone's API"),
    ),
    known(
        KEYSTONE,
        "include_service_catalog",
        Boolean,
        Needless("Berth has no use for catalogs of callers"),
    )
    .preset("true"),
    cache("cache", Text),
    cache("memcached_servers", List).also(&[(KEYSTONE, "memcache_servers")]),
    cache("memcache_security_strategy", Text).preset("None"),
    cache("memcache_secret_key", Text),
    cache("memcache_tls_enabled", Boolean).preset("false"),
    cache("memcache_tls_cafile", Text),
    cache("memcache_tls_certfile", Text),
    cache("memcache_tls_keyfile", Text),
    cache("memcache_tls_allowed_ciphers", Text),
    cache("memcache_pool_dead_retry", Integer).preset("300"),
    cache("memcache_pool_maxsize", Integer).preset("10"),
    cache("memcache_pool_socket_timeout", Integer).preset("3"),
    cache("memcache_pool_unused_timeout", Integer).preset("60"),
    cache("memcache_pool_conn_get_timeout", Integer).preset("10"),
    cache("memcache_use_advanced_pool", Boolean).preset("true"),
    cache("memcache_sasl_enabled", Boolean).preset("false"),
    cache("memcache_username", Text),
    cache("memcache_password", Text),
    former("auth_uri", "the option is `www_authenticate_uri`"),
    former("identity_uri", V3),
    former("auth_host", V3),
    former("auth_port", V3),
    former("auth_protocol", V3),
    former("auth_admin_prefix", V3),
    former("admin_user", V3),
    former("admin_password", V3),
    former("admin_tenant_name", V3),
    former("admin_token", V3),
    former("signing_dir", "Keystone checks every token itself"),
    former("hash_algorithms", "Keystone checks every token itself"),
    former("check_revocations_for_cached", "a token is asked for again when it leaves the cache"),
    former("revocation_cache_time", "a token is asked for again when it leaves the cache"),
];
