//! Options that do not go together are refused before anything is started.

use std::process::Command;

#[test]
fn faults_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    for (flags, text, named) in [
        (&["--listen", "0.0.0.0:8778"][..], "", "--allow-noauth"),
        (&["--planner-listen", "0.0.0.0:8090"], "", "--allow-noauth"),
        (&["--planner-listen", "none,127.0.0.1:1"], "", "--planner-listen"),
        (&["--database-connections", "151"], "", "at most 150"),
        (&["--database-url", "mysql://u:s3cret@h/d"], "", "postgres://USER:PASSWORD@HOST:PORT"),
        (&["--database-url", "postgres://u:s3cret@h:x/d"], "", "the port of host 1"),
        (&["--max-connections", "0"], "", "--max-connections"),
        (&["--max-requests", "0"], "", "--max-requests"),
        (&["--trusted-proxies", "10.0.0.0/40"], "", "10.0.0.0/40"),
        (&["--auth", "keystone"], "", "--keystone-auth-url"),
        (&["--candidate-order", "weights"], "", "needs --candidate-weights"),
        (&["--candidate-weights", "VCPU=1"], "", "needs --candidate-order weights"),
        (&["--candidate-weights", "cores=1"], "", "must be CLASS=WEIGHT"),
        (
            &[],
            "candidate-order = \"weights\"\ncandidate-weights = [\"trait:X=a\"]",
            "must be a number",
        ),
        (&[], "listen = [1]", "an array of strings"),
        (
            &[],
            "lisen = \"127.0.0.1:1\"",
            "line 1: there is no option \"lisen\"; did you mean \"listen\"?",
        ),
        (&[], "\n\nauth = \"keyston\"", "line 3: auth: \"keyston\": must be one of"),
        (&[], "[listen]\na = 1", "must be a string"),
        (&[], "keystone-password = s3cret", "line 1"),
        (&["--policy-file", "/no/such/file"], "", "--policy-file /no/such/file"),
        (&["--policy-dirs", "/no/such"], "", "--policy-dirs /no/such"),
        (
            &["--audit-log", "/no/such/log"],
            "",
            "--audit-log /no/such/log: the file cannot be created",
        ),
        (&["--audit-log", "/dev"], "", "--audit-log /dev: "),
        (
            &["--listen", "127.0.0.1:1", "--planner-listen", "127.0.0.1:1"],
            "",
            "--listen 127.0.0.1:1 and --planner-listen 127.0.0.1:1 cannot both",
        ),
        (
            &["--listen", "127.0.0.1:1", "--admin-listen", "0.0.0.0:1"],
            "",
            "--listen 127.0.0.1:1 and --admin-listen 0.0.0.0:1 cannot both",
        ),
        (
            &["--lisen", "x", "--database-url", "postgres://u:s3cret@h/d?sslmod=x"],
            "",
            "--database-url: parameter 1",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["config", "check", "--config"])
            .arg(&file)
            .args(flags)
            .env_clear()
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(named), "{flags:?} {text}: {words}");
        assert!(!words.contains("s3cret"), "{words}");
    }
}

/// Mistakes in the file, each with a sentence that says what to write.
const MISTAKES: [(&str, &str); 40] = [
    ("postgres://u:s3cret@h/d?sslmode=require", "line 1: a line must be NAME = VALUE"),
    ("u:s3cret@h", "line 1: a line must be NAME = VALUE"),
    ("listen = 127.0.0.1:8778", "line 1: listen: a text needs quotes, as in listen = \"...\""),
    ("log = info", "line 1: log: a text needs quotes, as in log = \"...\""),
    (
        "database-url = postgres://u:s3cret@h/d",
        "line 1: database-url: a text needs quotes, as in database-url = \"...\"",
    ),
    (
        "listen = [127.0.0.1:8778]",
        "line 1: listen: each text in the list needs quotes, as in [\"...\"]",
    ),
    ("auth = \"noauth2", "line 1: auth: the text has no closing quote"),
    ("auth =", "line 1: auth has no value"),
    ("auth", "line 1: a line must be NAME = VALUE"),
    ("auth: noauth2", "line 1: write auth = ... instead of auth: ..."),
    ("auth = \"noauth2\"\nauth = \"keystone\"", "line 2: auth is set twice"),
    (
        "auth = \"noauth\"",
        "line 1: auth: \"noauth\": must be one of noauth2, keystone; did you mean \"noauth2\"?",
    ),
    (
        "database_url = \"\"",
        "line 1: there is no option \"database_url\"; did you mean \"database-url\"?",
    ),
    ("[server]", "line 1: there is no option \"server\""),
    (
        "max-requests = \"lots\"",
        "line 1: max-requests: \"lots\": must be a number from 1 to 1000000",
    ),
    ("max-requests = 1.5", "line 1: max-requests: \"1.5\": must be a number from 1 to 1000000"),
    ("max-requests = -1", "line 1: max-requests: \"-1\": must be a number from 1 to 1000000"),
    (
        "database-connections = \"lots\"",
        "line 1: database-connections: \"lots\": must be a whole number",
    ),
    ("planner-hold-ttl = \"1 day\"", "line 1: planner-hold-ttl: \"1 day\": must be a whole number"),
    ("keystone-timeout = \"5s\"", "line 1: keystone-timeout: \"5s\": must be a number of seconds"),
    (
        "keystone-insecure = \"yes\"",
        "line 1: keystone-insecure: \"yes\": must be one of true, false",
    ),
    (
        "listen = [\"localhost\"]",
        "line 1: listen: \"localhost\": neither an address with a port, such as 127.0.0.1:8778 or [::]:8778, nor \
             unix:/path",
    ),
    ("log-format = \"yaml\"", "line 1: log-format: \"yaml\": must be one of human, json"),
    (
        "otlp-endpoint = \"collector\"",
        "--otlp-endpoint collector: must be a URL such as http://HOST:PORT",
    ),
    (
        "otlp-endpoint = \"u:s3cret@h:1\"",
        "--otlp-endpoint h:1: must be a URL such as http://HOST:PORT",
    ),
    (
        "[placement_database]\nconnection = mysql+pymysql://u:s3cret@h/placement",
        "is a configuration of OpenStack Placement; `berth config convert ",
    ),
    (
        "log = \"info berth=debug\"",
        "line 1: log: \"info berth=debug\": there must be commas between directives",
    ),
    ("slow-request = \"1s\"", "line 1: slow-request: \"1s\": must be a number of seconds"),
    ("shutdown-delay = -1", "line 1: shutdown-delay: \"-1\": must be 0 or more"),
    (
        "rate-limit-user = \"fast\"",
        "line 1: rate-limit-user: \"fast\": must be RATE or RATE:BURST, numbers of requests above 0",
    ),
    (
        "path-prefix = \"p\"",
        "line 1: path-prefix: \"p\": must begin with / and have at least one segment",
    ),
    (
        "planner-headroom = [\"VCPU\"]",
        "line 1: planner-headroom: \"VCPU\": must be CLASS=PERCENT, such as VCPU=10",
    ),
    (
        "trusted-proxies = [\"10.0.0.0/33\"]",
        "--trusted-proxies: \"10.0.0.0/33\" is not an address, a network such as 10.0.0.0/8, or unix:",
    ),
    (
        "cors-allowed-origin = [\"horizon\"]",
        "--cors-allowed-origin: \"horizon\" must be https://HOST[:PORT] or *",
    ),
    (
        "listen = [\"127.0.0.1:8090\"]",
        "--listen 127.0.0.1:8090 and --planner-listen 127.0.0.1:8090 cannot both be listened on",
    ),
    ("tls-cert = \"/x.pem\"", "TLS needs both --tls-cert and --tls-key\n  --tls-cert is set by: "),
    (
        "database-url = \"mysql://u:s3cret@h/d\"",
        "--database-url is invalid: it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE",
    ),
    ("auth = \"keystone\"", "--auth keystone needs --keystone-auth-url\n  --auth is set by: "),
    (
        "audit-log = \"/no/such/a\"",
        "--audit-log /no/such/a: the file cannot be created in /no/such: ",
    ),
    (
        "database-url = \"postgres://u:s@s3cret/x@h/d\"",
        "--database-url is invalid: it has an @ after the first /",
    ),
];

/// Checks a configuration file, and returns what is printed.
fn checked(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let (_, words) =
        berth(&["config", "check"], &[("BERTH_CONFIG", file.path().to_str().unwrap())]);
    assert!(!words.contains("s3cret"), "{words}");
    words
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_remedy() {
    for (text, sentence) in MISTAKES {
        let words = checked(text);
        assert!(words.contains(sentence), "{text}: {words}");
        // One mistake is one message.
        assert!(!words.contains("2 errors"), "{words}");
    }
}

#[test]
fn mistakes_in_what_the_file_names_are_named() {
    let keystone = |url: &str| {
        let words = "auth = \"keystone\"\nkeystone-username = \"b\"\nkeystone-password = \"s3cret\"\n\
                     keystone-project-name = \"service\"\nkeystone-user-domain-name = \"Default\"\n\
                     keystone-project-domain-name = \"Default\"";
        format!("{words}\nkeystone-auth-url = {url:?}")
    };
    for url in ["k:5000/v3", "k.example.org"] {
        let sentence = format!("Keystone's URL: {url}: must be a URL such as http://HOST:PORT");
        let words = checked(&keystone(url));
        assert!(words.contains(&sentence), "{words}");
    }
    let policy = tempfile::NamedTempFile::new().unwrap();
    let rule = "\"placement:resource_provider:list\": \"role:reader\"\n";
    std::fs::write(policy.path(), rule).unwrap();
    let words = checked(&format!("policy-file = {:?}", policy.path()));
    let sentence = "no operation uses the rule \"placement:resource_provider:list\"; did you mean \
                    \"placement:resource_providers:list\"?";
    assert!(words.contains(sentence), "{words}");
}

#[test]
fn every_line_of_the_sample_can_be_uncommented() {
    let sample = include_str!("../../samples/berth.toml");
    let is_option = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let text: Vec<&str> =
        sample.lines().filter(is_option).map(|line| line.trim_start_matches('#')).collect();
    assert!(text.len() > 70, "{text:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text.join("\n")).unwrap();
    let (code, words) =
        berth(&["config", "check"], &[("BERTH_CONFIG", file.path().to_str().unwrap())]);
    assert_eq!(code, Some(0), "{words}");
}

#[test]
fn the_file_of_the_packages_has_options_of_the_sample() {
    let options = |text: &'static str| text.lines().filter_map(|line| line.split_once(" = "));
    let sample: Vec<&str> =
        options(include_str!("../../samples/berth.toml")).map(|(name, _)| name).collect();
    let short = include_str!("../../deploy/packages/berth.toml");
    assert!(options(short).count() >= 8 && short.len() < 1500);
    for (name, _) in options(short) {
        assert!(sample.contains(&name), "{name}");
    }
}

/// For one version, so that an upgrade does not stop a server.
#[test]
fn options_that_are_gone_are_ignored_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    std::fs::write(&file, "\nidle-timeout = 60\ncors-allow-headers = [\"a\", \"b\"]\n").unwrap();
    let file = file.to_str().unwrap();
    let variables = [("BERTH_CONFIG", file), ("BERTH_KEYSTONE_RETRIES", "2")];
    let (code, words) = berth(&["config", "check", "--search-timeout", "5"], &variables);
    assert_eq!(code, Some(0), "{words}");
    for (option, origin) in [
        ("idle-timeout", &*format!("{file}, line 2")),
        ("cors-allow-headers", &format!("{file}, line 3")),
        ("keystone-retries", "environment variable BERTH_KEYSTONE_RETRIES"),
        ("search-timeout", "flag"),
    ] {
        let warning = format!(
            "berth: warning: there is no option {option} any more, and it has no effect; remove it \
             ({origin})\n"
        );
        assert!(words.contains(&warning), "{warning}: {words}");
        assert!(!words.contains(&format!("{option} = ")), "{words}");
    }
    let (code, words) = berth(&["db", "status", "--search-timeout", "5"], &[]);
    assert!(code == Some(2) && words.contains("--search-timeout"), "{words}");
}

#[test]
fn metrics_are_switched_off_as_the_planner_is() {
    let (code, words) =
        berth(&["config", "check", "--config", "/dev/null", "--admin-listen", "none"], &[]);
    assert_eq!(code, Some(0), "{words}");
    let both = ["config", "check", "--config", "/dev/null", "--admin-listen", "none,127.0.0.1:1"];
    let (code, words) = berth(&both, &[]);
    assert!(code == Some(1) && words.contains("--admin-listen: none must stand alone"), "{words}");
}

/// Runs `berth` in an environment that has nothing but what is given.
fn berth(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let words = [output.stderr, output.stdout].concat();
    (output.status.code(), String::from_utf8_lossy(&words).into_owned())
}

/// As with `?sslmod=`, `BERTH_LISTN` and a file with errors, of which only one or none used to be reported.
#[test]
fn all_faults_are_reported_at_once_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    let text = "lisen = \"127.0.0.1:1\"\nmax-requests = 0\nlog-format = \"jsn\"\nlog = \"inof\"\n\
                database-url = \"postgres://u:s3cret@h/d?sslmod=verify-full\"\n";
    std::fs::write(&file, text).unwrap();
    let named = file.display().to_string();
    let (code, words) = berth(
        &["config", "check", "--planner-timout", "3", "--max-connections", "none"],
        &[
            ("BERTH_CONFIG", &named),
            ("BERTH_LISTN", "127.0.0.1:1"),
            ("BERTH_SHUTDOWN_GRACE", "soon"),
            // Of Kubernetes, for a service of the name berth.
            ("BERTH_SERVICE_HOST", "10.0.0.1"),
            ("BERTH_PORT", "tcp://10.0.0.1:8778"),
        ],
    );
    let words = words.replace(&named, "berth.toml");
    insta::assert_snapshot!(words, @r#"
    error: 9 errors:
      berth.toml, line 1: there is no option "lisen"; did you mean "listen"?
      berth.toml, line 2: max-requests: "0": must be a number from 1 to 1000000
      berth.toml, line 3: log-format: "jsn": must be one of human, json; did you mean "json"?
      berth.toml, line 4: log: "inof": inof is no level, the nearest is info; there are off, error, warn, info, debug, trace, also for a module, as in berth::store=debug
      environment variable BERTH_LISTN: there is no option for it; did you mean "BERTH_LISTEN"?
      environment variable BERTH_SHUTDOWN_GRACE: "soon": must be a number of seconds
      --planner-timout: there is no such option; did you mean "--planner-timeout-max"?
      --max-connections: "none": must be a number from 1 to 1000000
      berth.toml, line 5: database-url: parameter 1 after the question mark is unknown; did you mean "sslmode"?
    "#);
    assert!(!words.contains("s3cret"), "{words}");
    assert_eq!(code, Some(2));
}

/// All errors are reported, too, that concern several options: a conflict between options, or a missing file.
#[test]
fn contradictory_options_are_reported_at_once_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    let text = "# The database.\ndatabase-url = \"postgres://u:s3cret@h/d?sslmod=verify-full\"\n";
    std::fs::write(&file, text).unwrap();
    let named = file.display().to_string();
    let environment = [("BERTH_CONFIG", named.as_str()), ("BERTH_POLICY_FILE", "/no/such/file")];
    let (code, words) = berth(&["config", "check", "--listen", "0.0.0.0:1"], &environment);
    assert!(!words.contains("s3cret"), "{words}");
    insta::assert_snapshot!(words.replace(&named, "berth.toml"), @r#"
    berth: --database-url is invalid: parameter 1 after the question mark is unknown; did you mean "sslmode"?
    --auth noauth2 believes every caller, and other machines can reach 0.0.0.0:1; listen on 127.0.0.1, or pass --allow-noauth if something in front keeps strangers out
    --policy-file /no/such/file: No such file or directory (os error 2)
      --database-url is set by: berth.toml, line 2
      --policy-file is set by: environment variable BERTH_POLICY_FILE
    "#);
    assert_eq!(code, Some(1));
}

#[test]
fn help_is_there_whatever_is_wrong() {
    let environment = [("BERTH_CONFIG", "/no/such/file"), ("BERTH_LISTN", "x")];
    let (code, words) = berth(&["serve", "--help"], &environment);
    assert!(code == Some(0) && words.contains("--database-url"), "{words}");
}

/// As with `db migrate` and the URL in berth.toml, which made a new private cluster.
#[test]
fn every_command_reads_the_file_and_says_which_database_it_talks_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    // Nothing listens on port 1.
    let text = "listen = \"127.0.0.1:7\"\ndatabase-url = \"postgres://u:s3cret@127.0.0.1:1/d\"\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let data = folder.path().join("data").display().to_string();
    for command in [
        &["db", "migrate"][..],
        &["db", "status"],
        &["db", "check"],
        &["flavor", "list"],
        &["group", "list"],
        &["aggregate", "list"],
    ] {
        for (more, variables) in
            [(&["--config", file.as_str()][..], &[][..]), (&[], &[("BERTH_CONFIG", file.as_str())])]
        {
            let (code, words) = berth(&[command, more].concat(), variables);
            let first =
                format!("berth: the database is postgres://u@127.0.0.1:1/d ({file}, line 2)\n");
            assert!(code == Some(1) && words.starts_with(&first), "{command:?}: {words}");
            assert!(!words.contains("s3cret"), "{words}");
        }
        let (code, words) = berth(&[command, &["--data-dir", &data]].concat(), &[]);
        let first = format!("berth: the database is the private PostgreSQL in {data} (flag)\n");
        assert!(code == Some(1) && words.starts_with(&first), "{command:?}: {words}");
        assert!(words.contains("only `berth serve` creates one"), "{words}");
        assert!(!folder.path().join("data").exists(), "{command:?}");
    }
}

/// Operators see which servers are named and how, and not the password.
#[test]
fn the_url_of_the_database_is_shown_without_its_password() {
    let url = "postgres://u:s3cret@one,two/d?sslmode=verify-full";
    let (code, words) =
        berth(&["config", "check"], &[("BERTH_CONFIG", "/dev/null"), ("BERTH_DATABASE_URL", url)]);
    assert_eq!(code, Some(0), "{words}");
    let shown = "database-url = postgres://u@one,two/d?sslmode=verify-full (environment variable";
    assert!(words.contains(shown) && !words.contains("s3cret"), "{words}");
}
