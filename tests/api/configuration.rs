//! Options that do not go together are refused before anything is started.

use std::process::Command;

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("berth.toml");
    for (flags, text, named) in [
        (&["--listen", "0.0.0.0:8778"][..], "", "--allow-noauth"),
        (&["--planner-listen", "0.0.0.0:8090"], "", "--allow-noauth"),
        (&["--planner-listen", "none,127.0.0.1:1"], "", "--planner-listen"),
        (&["--planner-timeout", "9"], "", "--planner-timeout-max"),
        (&["--database-connections", "151"], "", "at most 150"),
        (&["--database-url", "mysql://u:s3cret@h/d"], "", "postgres://USER:PASSWORD@HOST:PORT"),
        (&["--database-url", "postgres://u:s3cret@h:x/d"], "", "the port of host 1"),
        (&["--max-connections", "0"], "", "--max-connections"),
        (&["--max-requests", "0"], "", "--max-requests"),
        (&["--trusted-proxies", "10.0.0.0/40"], "", "10.0.0.0/40"),
        (&["--auth", "keystone"], "", "--keystone-auth-url"),
        (&[], "listen = [1]", "an array of strings"),
        (&[], "lisen = \"127.0.0.1:1\"", "unknown option \"lisen\""),
        (&[], "keystone-password = s3cret", "line 1"),
        (&["--policy-file", "/no/such/file"], "", "/no/such/file"),
    ] {
        std::fs::write(&file, text).unwrap();
        let told = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["config", "check", "--config"])
            .arg(&file)
            .args(flags)
            .env_clear()
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(!told.status.success() && words.contains(named), "{flags:?} {text}: {words}");
        assert!(!words.contains("s3cret"), "{words}");
    }
}
