//! Options of the service itself: logs, the API, candidates, the database.

use super::option::{DEFAULT, Fate, Kind, KnownOption, known};
use Fate::{Bounded, Key, Lost, Made, Needless, Refused};
use Kind::{Boolean, Choice, Integer, List, Text};

const FORM: &str = "log lines have the form that `log-format` says";
const NO_FILE: &str = "Berth writes no log files";
const SYSLOG: &str = "Berth logs to standard error; systemd's journal takes that in and can hand it on \
                      to syslog";
const FILE: &str = "Berth logs to standard error; let systemd, the container's runtime or a redirection \
                    keep it";
const NEVER_DROPS: &str = "Berth writes every line of the level it logs at";
const PYTHON: &str = "it is about the reference's own files";
const POOL: &str = "requests wait for a connection of a pool of fixed size";
const DATABASE: &str = "placement_database";

pub(super) const OPTIONS: &[KnownOption] = &[
    // `[DEFAULT]`
    known(DEFAULT, "debug", Boolean, Made("log", "true is `debug`")).preset("false"),
    known(
        DEFAULT,
        "default_log_levels",
        List,
        Made(
            "log",
            "the levels of what Berth has too: placement, keystonemiddleware, oslo_policy, sqlalchemy",
        ),
    ),
    known(DEFAULT, "use_json", Boolean, Made("log-format", "true is `json`")).preset("false"),
    known(DEFAULT, "log_file", Text, Lost(FILE)).also(&[(DEFAULT, "logfile")]),
    known(DEFAULT, "log_dir", Text, Lost(FILE)).also(&[(DEFAULT, "logdir")]),
    known(DEFAULT, "use_syslog", Boolean, Lost(SYSLOG)).preset("false"),
    known(DEFAULT, "use_journal", Boolean, Needless(SYSLOG)).preset("false"),
    known(DEFAULT, "syslog_log_facility", Text, Lost(SYSLOG)).preset("LOG_USER"),
    known(DEFAULT, "use_stderr", Boolean, Needless("standard error is where Berth logs"))
        .preset("false"),
    known(DEFAULT, "log_color", Boolean, Needless("lines are coloured on a terminal"))
        .preset("false"),
    known(
        DEFAULT,
        "log_config_append",
        Text,
        Lost("it names a file for Python's logging; say what to log with `log`"),
    )
    .also(&[(DEFAULT, "log-config"), (DEFAULT, "log_config")]),
    known(DEFAULT, "log_date_format", Text, Needless(FORM)).preset("%Y-%m-%d %H:%M:%S"),
    known(DEFAULT, "logging_context_format_string", Text, Needless(FORM)),
    known(DEFAULT, "logging_default_format_string", Text, Needless(FORM)),
    known(DEFAULT, "logging_debug_format_suffix", Text, Needless(FORM)),
    known(DEFAULT, "logging_exception_prefix", Text, Needless(FORM)),
    known(DEFAULT, "logging_user_identity_format", Text, Needless(FORM)),
    known(DEFAULT, "instance_format", Text, Needless(FORM)).preset("[instance: %(uuid)s] "),
    known(DEFAULT, "instance_uuid_format", Text, Needless(FORM)).preset("[instance: %(uuid)s] "),
    known(DEFAULT, "log_rotate_interval", Integer, Needless(NO_FILE)).preset("1"),
    known(DEFAULT, "log_rotate_interval_type", Text, Needless(NO_FILE)).preset("days"),
    known(DEFAULT, "log_rotation_type", Text, Needless(NO_FILE)).preset("none"),
    known(DEFAULT, "max_logfile_count", Integer, Needless(NO_FILE)).preset("30"),
    known(DEFAULT, "max_logfile_size_mb", Integer, Needless(NO_FILE)).preset("200"),
    known(DEFAULT, "watch_log_file", Boolean, Fate::Former("Berth writes no log files"))
        .preset("false"),
    known(DEFAULT, "rate_limit_interval", Integer, Lost(NEVER_DROPS)).preset("0"),
    known(DEFAULT, "rate_limit_burst", Integer, Lost(NEVER_DROPS)).preset("0"),
    known(DEFAULT, "rate_limit_except_level", Text, Needless(NEVER_DROPS)).preset("CRITICAL"),
    known(DEFAULT, "publish_errors", Boolean, Lost("Berth sends no notifications")).preset("false"),
    known(DEFAULT, "fatal_deprecations", Boolean, Needless("it is for the reference's developers"))
        .preset("false"),
    known(DEFAULT, "log_options", Boolean, Needless("`berth config check` shows the options"))
        .preset("true"),
    known(DEFAULT, "tempdir", Text, Needless(PYTHON)),
    known(DEFAULT, "pybasedir", Text, Needless(PYTHON)).installed(),
    known(DEFAULT, "state_path", Text, Needless(PYTHON)).preset("$pybasedir"),
    known(
        DEFAULT,
        "config_source",
        List,
        Refused(
            "options from other sources are not read; put what they hold into a file and name it \
             after this one",
        ),
    )
    .preset(""),
    known(DEFAULT, "verbose", Boolean, Fate::Former("`log` says what is logged")),
    // `[api]`
    known(
        "api",
        "auth_strategy",
        Choice(&["keystone", "noauth2"]),
        Made("auth", "always written, because the defaults differ"),
    )
    .preset("keystone")
    .also(&[(DEFAULT, "auth_strategy")]),
    // `[placement]`
    known(
        "placement",
        "randomize_allocation_candidates",
        Boolean,
        Key("randomize-allocation-candidates"),
    )
    .preset("false"),
    known(
        "placement",
        "max_allocation_candidates",
        Integer,
        Bounded("max-allocation-candidates", -1, i64::MAX),
    )
    .preset("-1"),
    known(
        "placement",
        "allocation_candidates_generation_strategy",
        Choice(&["depth-first", "breadth-first"]),
        Key("allocation-candidates-generation-strategy"),
    )
    .preset("depth-first"),
    known(
        "placement",
        "incomplete_consumer_project_id",
        Text,
        Key("incomplete-consumer-project-id"),
    )
    .preset("00000000-0000-0000-0000-000000000000"),
    known("placement", "incomplete_consumer_user_id", Text, Key("incomplete-consumer-user-id"))
        .preset("00000000-0000-0000-0000-000000000000"),
    known(
        "placement",
        "allocation_conflict_retry_count",
        Integer,
        Needless("claims on one provider wait for each other instead of failing"),
    )
    .preset("10"),
    known(
        "placement",
        "policy_file",
        Text,
        Fate::Former("the option is `[oslo_policy]` `policy_file`"),
    ),
    known(
        "workarounds",
        "optimize_for_wide_provider_trees",
        Boolean,
        Needless("the search always prunes what cannot fit"),
    )
    .preset("false"),
    // `[placement_database]`
    known(
        DATABASE,
        "connection",
        Text,
        Made(
            "database-url",
            "`postgresql+DRIVER://` becomes `postgres://`; every other database is refused unless \
             `--database-url` says where Berth's PostgreSQL is",
        ),
    ),
    known(
        DATABASE,
        "connection_parameters",
        Text,
        Made("database-url", "added to the URL's parameters"),
    )
    .preset(""),
    known(
        DATABASE,
        "max_pool_size",
        Integer,
        Made(
            "database-connections",
            "but no less than 10 where `max_overflow` lets the pool grow as far; 1000 at the most",
        ),
    ),
    known(
        DATABASE,
        "max_overflow",
        Integer,
        Made("database-connections", "Berth's pool does not grow; see `max_pool_size`"),
    ),
    known(DATABASE, "pool_timeout", Integer, Needless(POOL)),
    known(
        DATABASE,
        "connection_recycle_time",
        Integer,
        Needless("connections that the server has closed are replaced"),
    )
    .preset("3600"),
    known(
        DATABASE,
        "slave_connection",
        Text,
        Lost(
            "reads are answered from memory and need no second database; Berth does not connect \
             to it",
        ),
    ),
    known(
        DATABASE,
        "max_retries",
        Integer,
        Lost(
            "a server that cannot reach the database at start ends, and is started again by what \
             looks after it",
        ),
    )
    .preset("10"),
    known(
        DATABASE,
        "retry_interval",
        Integer,
        Needless("a server that cannot reach the database at start ends"),
    )
    .preset("10"),
    known(
        DATABASE,
        "sync_on_startup",
        Boolean,
        Lost("run `berth db migrate` with the same --database-url before the server"),
    )
    .preset("false"),
    known(
        DATABASE,
        "connection_debug",
        Integer,
        Lost("say `log = \"info,sqlx=debug\"` to see statements"),
    )
    .preset("0"),
    known(DATABASE, "connection_trace", Boolean, Needless("it is about Python's call stacks"))
        .preset("false"),
    known(DATABASE, "mysql_sql_mode", Text, Needless("Berth keeps its data in PostgreSQL"))
        .preset("TRADITIONAL"),
    known(DATABASE, "sqlite_synchronous", Boolean, Needless("Berth keeps its data in PostgreSQL"))
        .preset("true"),
    known(
        DATABASE,
        "idle_timeout",
        Integer,
        Fate::Former("connections that the server has closed are replaced"),
    ),
];
