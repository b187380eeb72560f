//! Sets the variables of the commit and time of the build for `src/observe/version.rs`.
//!
//! - `BUILD_COMMIT`: the variable `BERTH_BUILD_COMMIT` of the environment if it is set, else the
//!   commit that git has checked out here, with `+changes` if the sources differ from it. Empty without
//!   git, as in an archive of the sources.
//! - `BUILD_TIME`: `SOURCE_DATE_EPOCH` if it is set, else the time of the commit, in seconds since
//!   1970. Empty if neither is known.
//! - `BUILD_PROFILE`: `debug` or `release`.
//!
//! cargo also sets them for the programs that it runs, to which a name with `BERTH_` would be an option.
//!
//! Builds without optimisation do not query git: the tests would be compiled again after each commit.

use std::path::Path;
use std::process::Command;

/// The sources of the program. A change of one of them, and only that, compiles it again.
const SOURCES: [&str; 7] =
    ["src", "migrations", ".sqlx", ".cargo", "Cargo.toml", "Cargo.lock", "build.rs"];

fn main() {
    for name in ["BERTH_BUILD_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let profile = variable("PROFILE");
    let (mut commit, mut time) = (variable("BERTH_BUILD_COMMIT"), variable("SOURCE_DATE_EPOCH"));
    if profile == "release" && (commit.is_empty() || time.is_empty()) && is_work_tree() {
        watch();
        let found = git(&["log", "-1", "--format=%H %ct"]);
        if let Some((hash, seconds)) = found.as_deref().and_then(|line| line.split_once(' ')) {
            if commit.is_empty() {
                commit = format!("{hash}{}", if is_changed() { "+changes" } else { "" });
            }
            if time.is_empty() {
                seconds.clone_into(&mut time);
            }
        }
    }
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_TIME={time}");
    println!("cargo::rustc-env=BUILD_PROFILE={profile}");
}

/// Returns a variable of the environment; empty if it is not set.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Returns the output of a git command; `None` if there is no git or it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(text.trim().to_owned())
}

/// Returns whether this folder is the top of a work tree of git, rather than an archive that was unpacked in
/// another work tree.
fn is_work_tree() -> bool {
    let here = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let top = git(&["rev-parse", "--show-toplevel"]).map(|top| Path::new(&top).canonicalize());
    matches!((here, top), (Ok(here), Some(Ok(top))) if here == top)
}

/// Runs this script again when another commit is checked out or the sources change. A path that does
/// not exist would run it each time.
fn watch() {
    let of_git = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let sources = SOURCES.iter().map(|source| (*source).to_owned());
    for path in of_git.into_iter().flatten().chain(sources) {
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns whether the sources differ from the commit.
fn is_changed() -> bool {
    let mut arguments = vec!["status", "--porcelain", "--"];
    arguments.extend(SOURCES);
    git(&arguments).is_none_or(|changes| !changes.is_empty())
}
