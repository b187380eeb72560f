//! The rules as text: for `berth policy list` and `berth policy sample`.

use super::rules::{Rules, defaults};

/// Lists every rule with its expression, one line each, followed by indented lines with its operations,
/// its purpose and its default.
pub fn list(rules: &Rules) -> String {
    let mut lines = Vec::new();
    for (name, check) in rules.all() {
        lines.push(format!("{name}  {check}"));
        let Some(default) = defaults().find(|it| it.name == name) else { continue };
        lines.extend(default.operations.iter().map(|operation| format!("    {operation}")));
        lines.push(format!("    {}", default.description));
        lines.push(format!("    default: {}", default.check));
        lines.extend(default.legacy.map(|it| format!("    before: {it}")));
    }
    lines.join("\n")
}

/// Returns a policy file with every rule and its default, commented out.
pub fn sample() -> String {
    let mut lines = vec![
        "# The policy rules of Berth with their defaults. A rule that is commented out has its default;"
            .to_owned(),
        "# to change a rule, remove the # and edit the expression. docs/policy.md describes the".to_owned(),
        "# language, which is oslo.policy's. Changes take effect when the file is saved.".to_owned(),
    ];
    for default in defaults() {
        lines.extend([String::new(), format!("# {}", default.description)]);
        lines.extend(default.operations.iter().map(|operation| format!("# {operation}")));
        if !default.operations.is_empty() {
            lines.push("# requires a token for a project".to_owned());
        }
        lines.extend(
            default.legacy.map(|it| format!("# with enforce-new-defaults = false also: {it}")),
        );
        lines.push(format!("#\"{}\": \"{}\"", default.name, default.check));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::sample;
    use crate::auth::policy::{
        Caller, Policy, Rules, Source, defaults, list, operations, planning,
    };

    #[test]
    fn the_sample_without_its_marks_is_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        let rules: Vec<String> = sample()
            .lines()
            .filter_map(|line| line.strip_prefix("#\"").map(|rule| format!("\"{rule}")))
            .collect();
        assert_eq!(rules.len(), defaults().count());
        std::fs::write(&file, rules.join("\n")).unwrap();
        let source = Source { file: Some(file), ..Source::defaults(true) };
        let (policy, warnings) = Policy::load(source).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(policy.rules().all(), Policy::defaults(true).rules().all());
    }

    #[test]
    fn the_samples_are_current() {
        let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
        let written = std::fs::read_to_string(samples.join("policy.yaml")).unwrap();
        assert_eq!(written, sample(), "run `make samples`");
    }

    #[test]
    fn auditors_read_everything_and_change_nothing() {
        let directory =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join("policy.d");
        for enforce_new_defaults in [false, true] {
            let directories = vec![directory.clone()];
            let source = Source { directories, ..Source::defaults(enforce_new_defaults) };
            let (policy, warnings) = Policy::load(source).unwrap();
            assert_eq!(warnings, [""; 0]);
            let (now, before) = (policy.rules(), Policy::defaults(enforce_new_defaults).rules());
            let target = [("project_id", Some("p"))];
            for operation in operations() {
                let is_read = |it: &&str| {
                    let method = it.split(' ').next();
                    let by_body = ["POST /-/v1/allocations/get", "POST /-/v1/explain"];
                    matches!(method, Some("GET" | "HEAD")) || by_body.contains(it)
                };
                let reads = operation.operations.iter().all(is_read)
                    && operation.name != planning::ALL_PROJECTS_WRITE.name();
                let may = |rules: &Rules, role: &str| {
                    let (project, roles) = (Some("p".to_owned()), vec![role.to_owned()]);
                    let caller = Caller { project, roles, ..Caller::default() };
                    rules.passes(&caller, &target, operation.name)
                };
                assert_eq!(may(&now, "auditor"), reads, "{}", operation.name);
                for role in ["admin", "service", "reader", "member"] {
                    assert_eq!(may(&now, role), may(&before, role), "{}", operation.name);
                }
            }
        }
    }

    #[test]
    fn the_list_has_every_rule_and_operation() {
        let text = list(&Policy::defaults(true).rules());
        for default in defaults() {
            assert!(text.lines().any(|line| line.starts_with(&format!("{}  ", default.name))));
            assert!(default.operations.iter().all(|it| text.contains(it)));
        }
    }
}
