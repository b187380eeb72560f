//! Policy files: YAML, and with it JSON, as oslo.policy reads them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

use super::check::Check;
use super::language;
use super::rules::{Fault, Location, Override};

/// A file with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Reads a file, then the files in directories, in the order in which they are applied:
/// alphabetically, without those whose names begin with a dot.
///
/// # Errors
/// A file cannot be read; the message names the file and its option.
pub(super) fn read(file: Option<&Path>, directories: &[PathBuf]) -> Result<Vec<Text>, String> {
    let (of_file, of_directories) = ("--policy-file", "--policy-dirs");
    let failure = |option, path: &Path, error| format!("{option} {}: {error}", path.display());
    let mut paths: Vec<_> = file.into_iter().map(|path| (of_file, path.to_owned())).collect();
    for directory in directories {
        let inside =
            inside(directory).map_err(|error| failure(of_directories, directory, error))?;
        paths.extend(inside.into_iter().map(|path| (of_directories, path)));
    }
    let text = |(option, path): (_, PathBuf)| {
        let text = fs::read_to_string(&path).map_err(|error| failure(option, &path, error))?;
        Ok(Text { path, text })
    };
    paths.into_iter().map(text).collect()
}

fn inside(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Parses the rules in a file.
///
/// # Errors
/// The file is not YAML, is not a mapping of names to rules, or contains a malformed rule.
pub(super) fn parse(file: &Text) -> Result<Vec<Override>, Fault> {
    let fault =
        |line, what: String| Fault { place: Location { file: file.path.clone(), line }, what };
    let documents = MarkedYaml::load_from_str(&file.text)
        .map_err(|error| fault(error.marker().line(), error.info().to_owned()))?;
    let top = match documents.as_slice() {
        [] => return Ok(Vec::new()),
        [top] => top,
        [_, second, ..] => {
            let line = second.span.start.line();
            return Err(fault(line, "expected only one document".to_owned()));
        }
    };
    if matches!(top.data, YamlData::Value(Scalar::Null)) {
        return Ok(Vec::new());
    }
    let YamlData::Mapping(rules) = &top.data else {
        let what = "expected a mapping of names to rules".to_owned();
        return Err(fault(top.span.start.line(), what));
    };
    let mut overrides = Vec::new();
    for (name, rule) in rules {
        let line = name.span.start.line();
        let name = text(name).ok_or_else(|| fault(line, "expected a name".to_owned()))?;
        let check = check(rule).map_err(|what| fault(line, format!("rule \"{name}\": {what}")))?;
        let place = Location { file: file.path.clone(), line };
        overrides.push(Override { name: name.to_owned(), check, place });
    }
    Ok(overrides)
}

fn check(rule: &MarkedYaml<'_>) -> Result<Check, String> {
    if let Some(expression) = text(rule) {
        return language::parse(expression);
    }
    let YamlData::Sequence(list) = &rule.data else {
        return Err("expected a text, such as \"role:admin\"; \"\" allows every caller".to_owned());
    };
    let unclear = || "expected a list of texts, or of lists of texts".to_owned();
    let lists: Option<Vec<Vec<String>>> = list.iter().map(parts).collect();
    language::parse_list(&lists.ok_or_else(unclear)?)
}

/// Returns the parts that must all hold: a list, or a single one.
fn parts(node: &MarkedYaml<'_>) -> Option<Vec<String>> {
    if let Some(only) = text(node) {
        // An empty text is an empty list in oslo.policy.
        return Some(if only.is_empty() { Vec::new() } else { vec![only.to_owned()] });
    }
    let YamlData::Sequence(parts) = &node.data else { return None };
    parts.iter().map(|part| text(part).map(str::to_owned)).collect()
}

fn text<'n>(node: &'n MarkedYaml<'_>) -> Option<&'n str> {
    if let YamlData::Value(Scalar::String(text)) = &node.data { Some(text) } else { None }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Text, parse};

    fn rules(text: &str) -> Result<Vec<(String, String, usize)>, String> {
        let text = Text { path: PathBuf::from("policy.yaml"), text: text.to_owned() };
        let overrides = parse(&text).map_err(|fault| fault.to_string())?;
        let shown =
            overrides.iter().map(|it| (it.name.clone(), it.check.to_string(), it.place.line));
        Ok(shown.collect())
    }

    fn one(name: &str, check: &str, line: usize) -> Vec<(String, String, usize)> {
        vec![(name.to_owned(), check.to_owned(), line)]
    }

    #[test]
    fn yaml_and_json_are_read() {
        assert_eq!(rules("# nothing\n").unwrap(), []);
        assert_eq!(rules("").unwrap(), []);
        assert_eq!(rules("{}").unwrap(), []);
        assert_eq!(rules("# why\n\na: role:x\n").unwrap(), one("a", "role:x", 3));
        assert_eq!(rules("{\n  \"a\": \"role:x\"\n}").unwrap(), one("a", "role:x", 2));
        assert_eq!(rules("\"a:b\": \"\"").unwrap(), one("a:b", "@", 1));
        assert_eq!(
            rules("a:\n- [role:x, role:y]\n- role:z").unwrap(),
            one("a", "((role:x and role:y) or role:z)", 1)
        );
        assert_eq!(rules("a: []").unwrap(), one("a", "@", 1));
        assert_eq!(
            rules("a: >\n  role:x or\n  role:y\n").unwrap(),
            one("a", "(role:x or role:y)", 1)
        );
    }

    #[test]
    fn an_unparsable_part_is_named_with_its_line() {
        for (text, why) in [
            ("a: role:x\nb: [", "policy.yaml:"),
            ("- a", "policy.yaml:1: expected a mapping of names"),
            ("a", "policy.yaml:1: expected a mapping of names"),
            ("x: \"\"\na:", "policy.yaml:2: rule \"a\": expected a text"),
            ("a: true", "policy.yaml:1: rule \"a\": expected a text"),
            ("a: {b: c}", "policy.yaml:1: rule \"a\": expected a text"),
            ("a: [[1]]", "policy.yaml:1: rule \"a\": expected a list of texts"),
            ("\n\na: role:x and", "policy.yaml:3: rule \"a\": the expression ends too early"),
            ("a: \"http://x\"", "policy.yaml:1: rule \"a\": \"http://x\" would query"),
        ] {
            let fault = rules(text).unwrap_err();
            assert!(fault.starts_with(why), "{text}: {fault}");
        }
    }
}
