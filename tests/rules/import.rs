//! `berth config convert` as operators run it: whole files of the kinds that deployment tools
//! write, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test that stumbles has failed")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use berth::moving::config_import::table;

const OWN: &str = "postgres://berth:s3cret@db.example.com/berth";

/// Runs `berth config convert` beside the clouds, with nothing in the environment but `variables`.
fn import(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let clouds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/clouds");
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "convert"])
        .args(arguments)
        .current_dir(clouds)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/clouds");
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).unwrap().replace(&here.display().to_string(), "/here")
    };
    (text(&output.stdout), text(&output.stderr))
}

/// A file with this text, and what an import of it with a database of its own gives.
fn imported(text: &str, variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.conf");
    std::fs::write(&path, text).unwrap();
    import(&[path.to_str().unwrap(), "--database-url", OWN], variables)
}

fn value(output: &Output, key: &str) -> Option<toml::Value> {
    let (stdout, stderr) = texts(output);
    assert!(output.status.success(), "{stderr}");
    stdout.parse::<toml::Table>().unwrap().get(key).cloned()
}

/// Returns the message of a refusal.
fn refusal(output: &Output) -> String {
    let (stdout, stderr) = texts(output);
    assert_eq!((output.status.code(), stdout.as_str()), (Some(1), ""), "{stderr}");
    stderr
}

const NOAUTH: &str = "[api]\nauth_strategy = noauth2\n";
const KEYSTONE: &str = "[keystone_authtoken]\nauth_type = password\nauth_url = http://k\n\
                        username = u\npassword = p\nuser_domain_id = d\nproject_name = s\n\
                        project_domain_id = d\n";

#[test]
fn configurations_of_clouds_carry_over() {
    for cloud in ["debian", "devstack", "kolla-ansible", "noauth", "openstack-helm"] {
        let file = format!("{cloud}/placement.conf");
        let own = ["--database-url", OWN];
        // Debian's has a PostgreSQL.
        let own = if cloud == "debian" { &[][..] } else { &own[..] };
        let output = import(&[&[file.as_str()], own].concat(), &[]);
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
        insta::assert_snapshot!(format!("{cloud}"), format!("{stdout}\n---\n{stderr}"));
    }
}

#[test]
fn every_option_that_is_written_is_one_of_serve() {
    let command = berth::cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    let known: Vec<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
    for key in table::all().filter_map(table::KnownOption::key) {
        assert!(known.contains(&key), "{key}");
    }
}

#[test]
fn serve_understands_what_is_written() {
    for cloud in ["debian", "devstack", "kolla-ansible", "noauth", "openstack-helm"] {
        understood(cloud);
    }
}

fn understood(cloud: &str) {
    let output = import(&[&format!("{cloud}/placement.conf"), "--database-url", OWN], &[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.toml");
    std::fs::write(&path, &output.stdout).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "check", "--config"])
        .arg(&path)
        .env_clear()
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&check.stderr);
    // The files of a cloud are not here.
    assert!(check.status.success() || message.contains("No such file"), "{cloud}: {message}");
    if cloud == "noauth" {
        let message = String::from_utf8_lossy(&check.stdout);
        let origin = format!("log-format = json ({}, line ", path.display());
        assert!(message.contains(&origin), "{message}");
    }
}

#[test]
fn the_manual_has_the_table() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    assert!(
        manual.contains(&table::markdown()),
        "put what `berth config convert --table` prints into docs/import.md"
    );
}

#[test]
fn other_databases_need_one_of_berths_own() {
    let message = refusal(&import(&["devstack/placement.conf"], &[]));
    assert!(message.contains("devstack/placement.conf:7"), "{message}");
    assert!(message.contains("--database-url"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}

#[test]
fn unsafe_drops_are_refused() {
    let table = [
        ("delay_auth_decision = yes", "delay_auth_decision"),
        ("enforce_token_bind = required", "enforce_token_bind"),
        ("auth_version = v2.0", "auth_version"),
        ("auth_type = v3oidcpassword", "auth_type"),
        ("auth_type =", "auth_type"),
        ("auth_url =", "auth_url"),
        ("password =", "password"),
        ("domain_id = default", "domain_id"),
        ("insecure = perhaps", "insecure"),
        ("http_connect_timeout = -1", "http_connect_timeout"),
        ("user_id = u", "user_id"),
        ("project_id = p", "project_id"),
        ("trust_id = t", "trust_id"),
        ("service_type = resources", "service_type"),
        ("username = ${nobody}", "username"),
        ("username = $username", "username"),
    ];
    for (line, option) in table {
        let message = refusal(&imported(
            &format!("{NOAUTH}{KEYSTONE}{line}"),
            &[("OS_API__AUTH_STRATEGY", "keystone")],
        ));
        assert!(
            message.contains(&format!("error: [keystone_authtoken] {option}")),
            "{line}: {message}"
        );
    }
    for text in [
        "[DEFAULT]\nconfig_source = remote",
        "[placement]\nmax_allocation_candidates=-2",
        "[oslo_policy]\npolicy_default_rule = other",
    ] {
        refusal(&imported(&format!("{NOAUTH}{text}"), &[]));
    }
    let message = refusal(&imported("[api]\nauth_strategy = noauth3", &[]));
    assert!(message.contains("keystone, noauth2"), "{message}");
    let message = refusal(&imported(&format!("{NOAUTH}s3cret"), &[]));
    assert!(message.contains("placement.conf:3: the line has neither ="), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
    refusal(&import(&["nowhere.conf"], &[]));
    let own = ["noauth/placement.conf", "--database-url", "mysql://u:s3cret@h/d"];
    assert!(!refusal(&import(&own, &[])).contains("s3cret"));
}

#[test]
fn safe_values_of_refused_options_pass() {
    let text = "delay_auth_decision = false\nenforce_token_bind = disabled\nauth_version = v3";
    assert_eq!(
        value(&imported(&format!("{KEYSTONE}{text}"), &[]), "auth").unwrap(),
        "keystone".into()
    );
}

#[test]
fn credentials_move_with_their_section() {
    let text = "[keystone_authtoken]\nauth_section = Cloud\ncafile = /ca\nusername = not-read\n\
                [cloud]\nauth_type = password\nauth_url = http://k\ntenant_name = s\n\
                default_domain_id = d\nusername = u\npassword = $username-p\n";
    let output = imported(text, &[("OS_CLOUD__USER_DOMAIN_NAME", "domain")]);
    let wanted = [
        ("username", "u"),
        ("user-domain-name", "domain"),
        ("password", "u-p"),
        ("project-name", "s"),
        ("user-domain-id", "d"),
        ("project-domain-id", "d"),
        ("ca-file", "/ca"),
    ];
    for (key, wanted) in wanted {
        assert_eq!(value(&output, &format!("keystone-{key}")), Some(wanted.into()), "{key}");
    }
    let (_, stderr) = texts(&output);
    assert!(stderr.contains("auth_section says"), "{stderr}");
}

#[test]
fn pools_are_as_small_as_there() {
    let table = [
        ("max_pool_size = 1\nmax_overflow = 1000", None),
        ("max_pool_size = 5000", Some(1000)),
        ("max_pool_size = 0", None),
        ("max_pool_size = 40\nmax_overflow = 0", Some(40)),
        ("max_pool_size = 3\nmax_overflow = 2", Some(5)),
        ("max_overflow = 0", Some(5)),
        ("max_overflow = -1", None),
    ];
    for (text, wanted) in table {
        let output = imported(&format!("{NOAUTH}[placement_database]\n{text}"), &[]);
        let wanted = wanted.map(toml::Value::Integer);
        assert_eq!(value(&output, "database-connections"), wanted, "{text}");
    }
}

#[test]
fn folders_come_after_files_and_the_environment_last() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("conf.d");
    std::fs::create_dir_all(parts.join("policy.d")).unwrap();
    let debug = |number| format!("{NOAUTH}[placement]\nmax_allocation_candidates = {number}\n");
    std::fs::write(folder.path().join("placement.conf"), debug(1)).unwrap();
    std::fs::write(parts.join("20.conf"), debug(3)).unwrap();
    std::fs::write(parts.join("10.conf"), debug(2)).unwrap();
    std::fs::write(parts.join("30.txt"), debug(4)).unwrap();
    let file = folder.path().join("placement.conf").display().to_string();
    let dir = parts.display().to_string();
    let own = ["--database-url", OWN];
    let key = "max-allocation-candidates";
    let output = import(&[&[file.as_str()], &own[..]].concat(), &[]);
    assert_eq!(value(&output, key), Some(1.into()));
    let both = [&[file.as_str(), "--config-dir", dir.as_str()], &own[..]].concat();
    assert_eq!(value(&import(&both, &[]), key), Some(3.into()));
    let there = value(&import(&both, &[]), "policy-dirs").unwrap();
    assert_eq!(there.as_str(), parts.join("policy.d").to_str());
    let variable = ("OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES", "5");
    assert_eq!(value(&import(&both, &[variable]), key), Some(5.into()));
    let found = [("OS_PLACEMENT_CONFIG_DIR", folder.path().to_str().unwrap())];
    assert_eq!(value(&import(&own, &found), key), Some(1.into()));
}

#[test]
fn files_of_the_present_folder_need_no_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("placement.conf"), NOAUTH).unwrap();
    std::fs::write(folder.path().join("policy.yaml"), "{}").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "convert", "placement.conf", "--database-url", OWN])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    let there = value(&output, "policy-file").unwrap();
    assert_eq!(there.as_str(), folder.path().join("policy.yaml").to_str());
}

#[test]
fn files_are_for_their_owner_and_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.toml");
    let to = path.to_str().unwrap();
    let run = |more: &[&str]| {
        let own = ["noauth/placement.conf", "--database-url", OWN, "--output", to];
        import(&[&own[..], more].concat(), &[])
    };
    assert!(run(&[]).status.success());
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::write(&path, "mine").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&run(&[])).contains("--force"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(run(&["--force"]).status.success());
    assert_eq!(mode(), 0o600);
    assert!(std::fs::read_to_string(&path).unwrap().contains("noauth2"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
