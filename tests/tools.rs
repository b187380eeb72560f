//! The messages of `make` when Rust is missing or too old, before it installs anything.

#![expect(clippy::unwrap_used, reason = "a test that stumbles has failed")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// The programs of the system that `make` and `tools/rust` need, beside cargo and rustc.
const PROGRAMS: [&str; 7] = ["make", "sh", "dirname", "sed", "awk", "sort", "head"];

/// Runs `make TARGET` where only these programs exist, each of which prints its line.
fn make(target: &str, programs: &[(&str, &str)]) -> (Output, bool) {
    let folder = tempfile::tempdir().unwrap();
    let installed = folder.path().join("apt-get was called");
    let write = |name: &str, script: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    for program in PROGRAMS {
        let path = std::env::var_os("PATH").unwrap();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
        let found = places.find(|path| path.is_file()).unwrap();
        symlink(found, folder.path().join(program)).unwrap();
    }
    for name in ["apt-get", "sudo"] {
        write(name, &format!(": >'{}'", installed.display()));
    }
    for (name, prints) in programs {
        write(name, &format!("echo '{prints}'"));
    }
    let output = Command::new("make")
        .arg(target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .env_clear()
        .env("PATH", folder.path())
        .output()
        .unwrap();
    (output, installed.exists())
}

fn assert_refused(target: &str, programs: &[(&str, &str)], sentence: &[&str]) {
    let (output, installed) = make(target, programs);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{target}: {message}");
    let line =
        message.lines().find(|line| line.starts_with("Berth needs Rust ")).unwrap_or(&message);
    for words in sentence {
        assert!(line.contains(words), "{target}: {words:?} is not in {line:?}");
    }
    assert!(!installed, "{target}: something was installed before Rust was checked");
}

#[test]
fn without_cargo_one_sentence_says_where_it_is_from() {
    for target in ["run", "test", "check", "lint"] {
        assert_refused(target, &[], &["cargo is not installed", "https://rustup.rs"]);
    }
}

#[test]
fn an_old_rust_is_named_with_its_version() {
    let (old, new) = ("cargo 1.63.0", env!("CARGO_PKG_RUST_VERSION"));
    assert_refused("run", &[("cargo", old)], &[new, "cargo is version 1.63.0", "rustup.rs"]);
    let cargo = ("cargo", format!("cargo {new}.0 (0000000 2026-01-01)"));
    let programs = [(cargo.0, &*cargo.1), ("rustc", "rustc 1.63.0"), ("rustup", "rustup 1.28.0")];
    assert_refused("run", &programs, &["rustc is version 1.63.0", "rustup update stable"]);
}
