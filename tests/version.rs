//! The output of `berth --version`, and the facts that the build script finds for it: in work trees of git, in
//! archives of the sources, and when the variables of a release are set.

#![expect(clippy::unwrap_used, reason = "a test that stumbles has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The build script, and a folder with sources to run it in.
struct Build {
    folder: TempDir,
    script: PathBuf,
}

impl Build {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("build-script");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(source);
        assert!(rustc.status().unwrap().success());
        let build = Self { folder, script };
        build.write("outer/berth/src/main.rs", "");
        build
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(self.folder.path().join(folder)).args(arguments);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "somebody");
            git.env(format!("GIT_{role}_EMAIL"), "somebody@example.org");
            git.env(format!("GIT_{role}_DATE"), "1795305600 +0000");
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes a repository of a folder, and returns its commit.
    fn commit(&self, folder: &str) -> String {
        self.git(folder, &["init", "--quiet"]);
        self.git(folder, &["add", "."]);
        self.git(folder, &["commit", "--quiet", "--message", "x"]);
        self.git(folder, &["rev-parse", "HEAD"])
    }

    /// Returns the lines that the script prints for cargo.
    fn run(&self, profile: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let mut script = Command::new(&self.script);
        script.current_dir(self.folder.path().join("outer/berth")).env("PROFILE", profile);
        script.env_remove("BERTH_BUILD_COMMIT").env_remove("SOURCE_DATE_EPOCH");
        let output = script.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// The commit and the time that the script finds.
    fn found(&self, profile: &str, variables: &[(&str, &str)]) -> (String, String) {
        let lines = self.run(profile, variables);
        let value = |name: &str| {
            let start = format!("cargo::rustc-env={name}=");
            lines.iter().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
        };
        (value("BUILD_COMMIT"), value("BUILD_TIME"))
    }
}

fn pair(commit: &str, time: &str) -> (String, String) {
    (commit.to_owned(), time.to_owned())
}

#[test]
fn a_work_tree_tells_its_commit_and_whether_the_sources_have_changed() {
    let build = Build::new();
    let commit = build.commit("outer/berth");
    assert_eq!(build.found("release", &[]), pair(&commit, "1795305600"));

    build.write("outer/berth/notes", "not a source");
    assert_eq!(build.found("release", &[]), pair(&commit, "1795305600"));
    build.write("outer/berth/src/new.rs", "");
    assert_eq!(build.found("release", &[]), pair(&format!("{commit}+changes"), "1795305600"));
}

/// A path that does not exist would run the script, and with it the compiler, at each build.
#[test]
fn cargo_watches_only_what_exists() {
    let build = Build::new();
    build.commit("outer/berth");
    let lines = build.run("release", &[]);
    let watched: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed=")).collect();
    // The script itself is not in the folder of this test.
    assert_eq!(watched, ["build.rs", ".git/HEAD", ".git/logs/HEAD", "src"]);
}

/// A program that consists of the build script and one line, built by cargo.
#[test]
fn cargo_compiles_again_after_a_commit_and_not_otherwise() {
    let build = Build::new();
    build.write("outer/berth/Cargo.toml", "[package]\nname = \"small\"\nedition = \"2024\"\n");
    build.write("outer/berth/src/main.rs", "fn main() { println!(env!(\"BUILD_COMMIT\")) }\n");
    build.write("outer/berth/build.rs", include_str!("../build.rs"));
    let target = build.folder.path().join("target");
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(build.folder.path().join("outer/berth")).args(arguments);
        cargo.env("CARGO_TARGET_DIR", &target).env_remove("BERTH_BUILD_COMMIT");
        let output = cargo.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        message.contains("Compiling small")
    };
    cargo(&["generate-lockfile", "--offline"]);
    let is_built = || cargo(&["build", "--release", "--offline", "--locked"]);
    let says = || {
        let output = Command::new(target.join("release/small")).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };

    let first = build.commit("outer/berth");
    assert!(is_built() && says() == first);
    assert!(!is_built(), "nothing has changed");
    build.write("outer/berth/notes", "not a source");
    build.git("outer/berth", &["status"]);
    assert!(!is_built(), "no source has changed");
    let second = build.commit("outer/berth");
    assert!(second != first && is_built() && says() == second);
    assert!(!is_built(), "nothing has changed");
}

#[test]
fn tests_are_not_compiled_again_after_each_commit() {
    let build = Build::new();
    build.commit("outer/berth");
    let lines = build.run("debug", &[]);
    assert!(lines.iter().all(|line| !line.contains(".git")), "{lines:?}");
    assert_eq!(build.found("debug", &[]), pair("", ""));
}

#[test]
fn an_archive_has_no_commit_also_within_another_repository() {
    let build = Build::new();
    assert_eq!(build.found("release", &[]), pair("", ""));
    build.commit("outer");
    assert_eq!(build.found("release", &[]), pair("", ""));
    // No git at all.
    assert_eq!(build.found("release", &[("PATH", "")]), pair("", ""));
}

#[test]
fn the_environment_of_a_release_has_precedence() {
    let build = Build::new();
    let variables = [("BERTH_BUILD_COMMIT", "0123"), ("SOURCE_DATE_EPOCH", "1")];
    for profile in ["release", "debug"] {
        assert_eq!(build.found(profile, &variables), pair("0123", "1"));
    }
    let commit = build.commit("outer/berth");
    assert_eq!(build.found("release", &variables), pair("0123", "1"));
    assert_eq!(build.found("release", &variables[..1]), pair("0123", "1795305600"));
    assert_eq!(build.found("release", &variables[1..]), pair(&commit, "1"));
}

#[test]
fn the_program_says_its_version_and_where_it_is_from() {
    let berth =
        |argument| Command::new(env!("CARGO_BIN_EXE_berth")).args(argument).output().unwrap();
    // cargo hands the variables of the build on to this process.
    assert!(berth(&["config", "check"][..]).status.success());
    let line = String::from_utf8(berth(&["--version"][..]).stdout).unwrap();
    let start = format!("berth {} (", env!("CARGO_PKG_VERSION"));
    assert!(line.starts_with(&start) && line.ends_with(")\n"), "{line:?}");
}
