//! The structure of the code, as described in docs/architecture.md: dependencies, sizes, and forbidden
//! names.

#![expect(clippy::unwrap_used, reason = "a test that stumbles has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of lines of a source file, without its tests.
const FILE_LINES_MAX: usize = 500;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["utils", "util", "common", "helpers", "misc", "lib", "manager", "base"];

/// A room of `src`: the rooms that it may use, and words that its code must not contain.
struct Layer {
    folder: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

const LAYERS: [Layer; 17] = [
    Layer {
        folder: "model",
        may_use: &["model"],
        never: &["async ", "serde", "sqlx", "axum", "hyper", "tokio", "SystemTime", "Instant"],
    },
    Layer {
        folder: "world",
        may_use: &["model", "world"],
        never: &["async ", "serde", "sqlx", "axum", "hyper", "tokio", "SystemTime", "Instant"],
    },
    Layer {
        folder: "search",
        may_use: &["model", "world", "search"],
        never: &["async ", "serde", "sqlx", "axum", "hyper", "tokio", "SystemTime", "Instant"],
    },
    Layer {
        folder: "solver",
        may_use: &["model", "observe", "solver"],
        never: &["async ", "serde", "sqlx", "axum", "hyper", "tokio", "SystemTime", "Instant"],
    },
    Layer {
        folder: "planner",
        may_use: &["model", "world", "search", "solver", "planner"],
        // The request of a plan is JSON, and is stored as JSON.
        never: &["async ", "sqlx", "axum", "hyper", "tokio", "SystemTime", "Instant"],
    },
    Layer {
        folder: "observe",
        may_use: &["http_client", "model", "observe"],
        never: &["sqlx", "PgConnection"],
    },
    Layer { folder: "fairness", may_use: &["fairness"], never: &["sqlx", "axum", "hyper"] },
    Layer { folder: "http_client", may_use: &["http_client"], never: &["sqlx"] },
    Layer {
        folder: "auth",
        may_use: &["fairness", "http_client", "model", "observe", "auth"],
        never: &["sqlx", "axum", "hyper"],
    },
    Layer {
        folder: "store",
        may_use: &["observe", "model", "world", "solver", "planner", "store"],
        never: &["axum", "hyper", "Microversion", "microversion::"],
    },
    Layer {
        folder: "audit",
        may_use: &["auth", "model", "observe", "store", "audit"],
        never: &["sqlx", "axum", "hyper"],
    },
    Layer {
        folder: "planning",
        may_use: &["fairness", "model", "observe", "planner", "store", "world", "planning"],
        never: &["axum", "hyper", "StatusCode", "sqlx", "PgConnection"],
    },
    Layer {
        folder: "http",
        may_use: &[
            "audit", "auth", "fairness", "model", "observe", "planner", "planning", "search",
            "solver", "store", "world", "http",
        ],
        never: &["sqlx", "PgConnection"],
    },
    Layer {
        folder: "config",
        may_use: &[
            "audit",
            "auth",
            "fairness",
            "http",
            "http_client",
            "model",
            "observe",
            "planner",
            "search",
            "store",
            "config",
        ],
        never: &["axum", "hyper"],
    },
    Layer {
        folder: "server",
        may_use: &[
            "audit", "auth", "config", "fairness", "http", "observe", "search", "store", "server",
        ],
        never: &[],
    },
    Layer {
        folder: "moving",
        may_use: &["auth", "http", "http_client", "model", "observe", "server", "store", "moving"],
        never: &[],
    },
    Layer {
        folder: "cli",
        may_use: &[
            "audit",
            "auth",
            "config",
            "http",
            "http_client",
            "model",
            "moving",
            "observe",
            "planner",
            "server",
            "store",
            "cli",
        ],
        never: &[],
    },
];

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn is_test(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == "tests.rs")
            || self.path.components().any(|part| part.as_os_str() == "tests")
    }

    /// Lines of code, without comments and without the part after `#[cfg(test)]`.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let until = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        let code = &self.text[..until];
        code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// `ls src` shows the rooms, and nothing else.
#[test]
fn every_folder_is_a_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    let rooms = LAYERS.iter().map(|layer| layer.folder).chain(["lib.rs", "main.rs"]);
    assert_eq!(found, rooms.map(str::to_owned).collect());
}

#[test]
fn a_layer_knows_only_those_below_it() {
    let mut faults = Vec::new();
    for layer in LAYERS {
        for source in sources(&format!("src/{}", layer.folder)) {
            if source.is_test() {
                continue;
            }
            for (nth, line) in source.code() {
                for used in line.split("crate::").skip(1) {
                    let module: String =
                        used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    if !layer.may_use.contains(&module.as_str()) {
                        faults.push(format!("{}:{}: uses {module}", source.name(), nth + 1));
                    }
                }
                for word in layer.never.iter().filter(|word| line.contains(**word)) {
                    faults.push(format!("{}:{}: contains {word:?}", source.name(), nth + 1));
                }
            }
        }
    }
    assert_none(&faults);
}

/// A module of a room: the names that lead to it from there, none for the room's own `mod.rs`.
type Module = Vec<String>;

#[test]
fn modules_import_each_other_in_one_direction() {
    let mut faults = Vec::new();
    for Layer { folder, .. } in LAYERS {
        let sources = sources(&format!("src/{folder}"));
        let sources: Vec<&Source> = sources.iter().filter(|source| !source.is_test()).collect();
        let modules: BTreeSet<Module> = sources.iter().map(|it| module_of(folder, it)).collect();
        let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for source in sources {
            let module = module_of(folder, source);
            let mut found = imported(source, folder, &module, &modules);
            found.remove(&module);
            imports.insert(module, found);
        }
        // Modules that import no other module that is left cannot be in a circle.
        loop {
            let before = imports.len();
            let left: BTreeSet<Module> = imports.keys().cloned().collect();
            imports.retain(|_, found| !found.is_disjoint(&left));
            if imports.len() == before {
                break;
            }
        }
        let left: BTreeSet<Module> = imports.keys().cloned().collect();
        for (module, found) in &imports {
            let found: Vec<String> = found.intersection(&left).map(|it| it.join("::")).collect();
            let name = module.join("::");
            faults.push(format!("src/{folder}: {name:?} is in a circle, or above one: {found:?}"));
        }
    }
    assert_none(&faults);
}

fn module_of(folder: &str, source: &Source) -> Module {
    let path = source.path.with_extension("");
    let path = path.strip_prefix(Path::new("src").join(folder)).unwrap();
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

/// The modules of its folder that a file names: `super::x`, `self::x`, `crate::folder::x`, and `x::`
/// where `x` is a module below it.
fn imported(
    source: &Source,
    folder: &str,
    module: &Module,
    modules: &BTreeSet<Module>,
) -> BTreeSet<Module> {
    let code: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let tokens = tokens(&code.join("\n"));
    let folder: Vec<&str> = std::iter::once("crate").chain(folder.split('/')).collect();
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        // A path within another, or that of `pub(in path)`, is no import.
        let is_inner = before.is_some_and(|before| before == "::")
            || at
                .checked_sub(3)
                .and_then(|from| tokens.get(from..at))
                .is_some_and(|it| it == ["pub", "(", "in"]);
        if is_inner || tokens.get(at + 1).is_none_or(|next| next != "::") {
            continue;
        }
        let mut paths = Vec::new();
        expand(&tokens, at, &[], &mut paths);
        for path in paths {
            let mut names = path.iter().map(String::as_str).peekable();
            let mut target = module.clone();
            match token.as_str() {
                "crate"
                    if path.iter().zip(&folder).filter(|(one, other)| one == *other).count()
                        == folder.len() =>
                {
                    target.clear();
                    names.by_ref().take(folder.len()).for_each(drop);
                }
                "self" => drop(names.next()),
                "super" => {
                    while names.next_if_eq(&"super").is_some() {
                        target.pop();
                    }
                }
                name if modules.contains(&[module.as_slice(), &[name.to_owned()]].concat()) => {}
                _ => continue,
            }
            for name in names {
                let below = [target.as_slice(), &[name.to_owned()]].concat();
                if !modules.contains(&below) {
                    break;
                }
                target = below;
            }
            found.insert(target);
        }
    }
    found
}

/// Splits code into tokens: names, `::`, and every other character; blanks are dropped.
fn tokens(code: &str) -> Vec<String> {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    let mut tokens: Vec<String> = Vec::new();
    let mut before = ' ';
    for character in code.chars() {
        let goes_on = is_name(before) && is_name(character) || before == ':' && character == ':';
        match tokens.last_mut().filter(|_| goes_on) {
            Some(last) => last.push(character),
            None if character.is_whitespace() => {}
            None => tokens.push(character.to_string()),
        }
        before = character;
    }
    tokens
}

/// All paths that begin at a token, with `a::{b, c}` as `a::b` and `a::c`. Returns the token behind.
fn expand(tokens: &[String], at: usize, before: &[String], paths: &mut Vec<Module>) -> usize {
    let mut path = before.to_vec();
    path.extend(tokens.get(at).cloned());
    let mut at = at + 1;
    if tokens.get(at).is_none_or(|token| token != "::") {
        paths.push(path);
        return at;
    }
    at += 1;
    if tokens.get(at).is_none_or(|token| token != "{") {
        return expand(tokens, at, &path, paths);
    }
    at += 1;
    while tokens.get(at).is_some_and(|token| token != "}") {
        at = expand(tokens, at, &path, paths);
        while tokens.get(at).is_some_and(|token| token != "," && token != "}") {
            at += 1;
        }
        at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
    }
    at + 1
}

/// The parser of paths is right about what matters.
#[test]
fn paths_are_expanded() {
    let tokens = tokens("use super::{a::{B, c::D as E}, self, f};");
    let mut paths = Vec::new();
    expand(&tokens, 1, &[], &mut paths);
    let paths: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["super::a::B", "super::a::c::D", "super::self", "super::f"]);
}

/// Beginnings of doc comments that are questions instead of definitions.
const QUESTIONS: [&str; 7] =
    ["What ", "How many ", "How much ", "How long ", "Who ", "Whom ", "Whose "];
/// Words of names for which the field has a term: reported, requested, trusted, response.
const COLLOQUIAL: [&str; 9] =
    ["told", "asked", "said", "believed", "nobody", "nobodys", "somebody", "whoever", "anew"];
/// Names that no variable has: it is called by what it holds, such as the output or the request.
const VAGUE: [&str; 4] = ["told", "asked", "said", "believed"];

/// Doc comments say what an item is or does, and functions are named in terms of the field.
#[test]
fn comments_and_names_are_plain() {
    let mut faults = Vec::new();
    for source in ["src", "tests", "benches"].into_iter().flat_map(sources) {
        for (nth, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = ["/// ", "//! "].iter().find_map(|slashes| line.strip_prefix(slashes));
            let question =
                QUESTIONS.iter().find(|it| comment.is_some_and(|text| text.starts_with(**it)));
            let code = line.split("//").next().unwrap_or("").split('"').step_by(2);
            let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
            let names = code.flat_map(|code| code.split(is_separator));
            let names = names.filter(|name| VAGUE.contains(name));
            let name = line.split_once("fn ").map_or("", |(_, rest)| rest);
            let words = name.split(is_separator).next().unwrap_or("").split('_');
            let word = words.chain(names).find(|word| COLLOQUIAL.contains(word));
            for found in question.copied().into_iter().chain(word) {
                faults.push(format!("{}:{}: {found:?}", source.name(), nth + 1));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn files_are_short() {
    let mut faults = Vec::new();
    for source in sources("src") {
        let lines = source.text.lines().count();
        let tests = source
            .text
            .find("#[cfg(test)]\nmod tests {")
            .map_or(0, |at| source.text[at..].lines().count());
        if lines - tests > FILE_LINES_MAX && !source.is_test() {
            faults.push(format!("{}: {} lines", source.name(), lines - tests));
        }
    }
    assert_none(&faults);
}

#[test]
fn every_file_says_what_it_is_for_under_a_name_that_says_so() {
    let mut faults = Vec::new();
    for source in ["src", "tests", "benches"].into_iter().flat_map(sources) {
        let is_unit_test = source.path.starts_with("src") && source.is_test();
        if !source.text.starts_with("//!") && !is_unit_test {
            faults.push(format!("{}: does not begin with //!", source.name()));
        }
        let stem = source.path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_crate_root = source.path == Path::new("src/lib.rs");
        if EMPTY_NAMES.contains(&stem.as_str()) && !is_crate_root {
            faults.push(format!("{}: the name says nothing", source.name()));
        }
    }
    assert_none(&faults);
}

/// Writing transactions begin in one place, so that none forgets to log what it changed. Beside it,
/// epochs are written, which no replica keeps in memory, an empty database is filled, with a new
/// epoch, and some transactions only read.
#[test]
fn only_the_change_module_begins_write_transactions() {
    let allowed = [
        "src/store/change.rs",
        "src/store/consumers.rs",
        "src/store/epoch.rs",
        "src/store/events/numbering.rs",
        "src/store/schema/mod.rs",
        "src/store/world_rows.rs",
        "src/moving/transfer/mod.rs",
        "src/moving/transfer/follow.rs",
        "src/moving/transfer/from_service.rs",
        "src/moving/transfer/resume.rs",
    ];
    let mut faults = Vec::new();
    for source in sources("src") {
        let begins = source
            .code()
            .any(|(_, line)| line.contains(".begin()") || line.contains(".begin_with("));
        if begins && !allowed.contains(&source.name().as_str()) {
            faults.push(format!("{}: begins a transaction", source.name()));
        }
    }
    assert_none(&faults);
}

/// The rule for connections that the other side has closed is implemented once, for every client.
#[test]
fn clients_of_http_are_made_where_the_rule_for_their_connections_is() {
    let allowed = ["src/http_client/mod.rs", "src/moving/shadow/service.rs"];
    let mut faults = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let makes = source.code().any(|(_, line)| line.contains("Client::builder("));
        if makes && !allowed.contains(&source.name().as_str()) {
            faults.push(format!("{}: makes a client of HTTP", source.name()));
        }
    }
    assert_none(&faults);
}

/// `make samples` writes it.
#[test]
fn the_sample_configuration_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/berth.toml");
    let sample = std::fs::read_to_string(path).unwrap();
    assert_eq!(sample, berth::cli::sample(), "run `make samples`");
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Number, name and sentence of every microversion, from the code and from the document.
#[test]
fn the_history_of_microversions_is_written_down() {
    let code = read("src/http/placement/microversion.rs");
    let history = code.split("\nhistory! {").nth(1).unwrap().split("\n}").next().unwrap();
    let mut in_code = Vec::new();
    let mut sentence = String::new();
    for line in history.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            sentence = format!("{sentence} {words}").trim().to_owned();
        } else if let Some((name, number)) = line.trim_end_matches(';').split_once(" = ") {
            in_code.push(format!("- **1.{number}** {name}: {sentence}"));
            sentence.clear();
        }
    }
    let document = read("docs/microversions.md");
    let mut in_document = Vec::new();
    for paragraph in document.split("\n\n").flat_map(|text| text.split("\n- ")) {
        let entry = paragraph.trim_start_matches("- ");
        if entry.starts_with("**1.") {
            let words: Vec<&str> = entry.split_whitespace().collect();
            in_document.push(format!("- {}", words.join(" ")));
        }
    }
    assert_eq!(in_code.len(), 40);
    assert_eq!(in_document, in_code);
}

/// Each deliberate difference names the test that holds it, as `file::function` of tests/api.
#[test]
fn every_difference_has_its_test() {
    let document = read("docs/differences.md");
    let mut faults = Vec::new();
    let mut named = 0;
    for (nth, line) in document.lines().enumerate() {
        let Some(test) = line.split("test: ").nth(1) else { continue };
        named += 1;
        let test = test.trim_end_matches(" |").trim_matches('`');
        let found = test.split_once("::").is_some_and(|(file, function)| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/api/{file}.rs"));
            let tests = std::fs::read_to_string(path).unwrap_or_default();
            tests.contains(&format!("fn {function}("))
        });
        if !found {
            faults.push(format!("docs/differences.md:{}: no test {test:?}", nth + 1));
        }
    }
    assert!(named > 20);
    assert_none(&faults);
}

/// Each row of the table of capabilities begins with the beginning of a test's name, or with a number and a reason.
#[test]
fn every_capability_has_its_test() {
    const PAGE: &str = "tests/planner/README.md";
    let tests: String = sources("tests/planner").iter().map(|source| source.text.clone()).collect();
    let document = read(PAGE);
    let table = document.split("\n## Capabilities\n").nth(1).unwrap();
    let mut faults = Vec::new();
    let mut count = 0;
    for row in table.lines().filter_map(|line| line.strip_prefix("| ")).skip(1) {
        count += 1;
        let (test, capability) = row.split_once(" | ").unwrap();
        let is_tested = test
            .strip_prefix('`')
            .and_then(|it| it.strip_suffix('`'))
            .is_some_and(|test| tests.contains(&format!("fn {test}_")));
        let is_explained = test.parse::<u8>().is_ok()
            && [": not served |", ": in part |"].iter().any(|it| capability.ends_with(it));
        if !is_tested && !is_explained {
            faults.push(format!("{PAGE}: no test, and no reason: {row}"));
        }
    }
    assert_eq!(count, 92, "every capability has a row");
    assert_none(&faults);
}

/// Defaults for missing values: the folder or file, the maximum number, and the reason. A change that adds one
/// raises the number, and so declares that it has this reason.
///
/// A default must not replace a value that cannot be missing: that is a `Bug`, or `Inconsistent` when rows
/// contradict each other (src/model/bug.rs, src/store/error.rs).
const DEFAULTS: [(&str, usize, &str); 22] = [
    ("src/cli/check/checks", 5, "what the server does not tell, a list without findings"),
    ("src/cli/health.rs", 1, "an answer without a line"),
    (
        "src/cli",
        9,
        "what the operator left out, a list without lines, what a query or an answer leaves out",
    ),
    (
        "src/moving/compare/known",
        2,
        "a target without a query, answers that are no error: no words",
    ),
    ("src/config", 3, "what the operator left out"),
    ("src/server/descriptors.rs", 3, "limits that the system does not tell"),
    ("src/http/console", 15, "what the browser left out, parts of a text, bounds"),
    ("src/http/placement", 20, "what the client left out, parts of a text, bounds"),
    ("src/http/planner", 20, "what the client left out, parts of a text, bounds"),
    ("src/http/", 32, "what the client or the proxy left out, parts of a text, bounds"),
    ("src/moving/config_import", 18, "what the file left out, parts of a text"),
    ("src/auth/keystone", 3, "what Keystone left out, parts of a text"),
    ("src/model", 4, "what nobody has released: nothing"),
    ("src/planner/", 24, "what the client left out, what nobody holds: nothing"),
    ("src/moving/shadow", 13, "parts of a text, bounds, what was not counted: nothing"),
    ("src/solver/", 64, "sums, greatest and least of nothing, bounds"),
    ("src/auth/policy", 6, "parts of a text, words of the language, a caller without a project"),
    (
        "src/search",
        22,
        "sets without members, groups without conditions, sums and minima of nothing, bounds",
    ),
    ("src/server", 2, "options that were left out"),
    (
        "src/store",
        8,
        "texts that PostgreSQL leaves out, a count beyond 32 bits, the time of most log entries",
    ),
    ("src/fairness/turns.rs", 2, "turns that nobody holds"),
    ("src/world", 7, "sets without members"),
];

#[test]
fn defaults_do_not_hide_what_cannot_happen() {
    let mut faults = Vec::new();
    let mut found = vec![0; DEFAULTS.len()];
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let name = source.name();
        let place = DEFAULTS.iter().position(|(place, ..)| name.starts_with(place));
        for (nth, line) in source.code() {
            let count =
                line.matches(".unwrap_or_default()").count() + line.matches(".unwrap_or(").count();
            match place {
                Some(place) => found[place] += count,
                None if count > 0 => faults.push(format!("{name}:{}: a silent default", nth + 1)),
                None => {}
            }
            if line.contains(".unwrap_or(Ok(") {
                faults.push(format!("{name}:{}: a missing outcome is a success", nth + 1));
            }
        }
    }
    for ((place, most, meaning), found) in DEFAULTS.iter().zip(found) {
        if found > *most {
            faults.push(format!("{place}: {found} defaults, of {most}; here they mean: {meaning}"));
        }
    }
    assert_none(&faults);
}
