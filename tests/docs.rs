//! Checks of the documentation: links lead somewhere, each alert is explained, pictures are up to date, and samples of
//! output have the columns that commands print.

#![expect(clippy::unwrap_used, reason = "a test that stumbles has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// All pages of the repository, by path from its root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // Hidden folders, and those that are built or installed.
            if name.starts_with('.') || ["target", "node_modules"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// Returns lines that are not code. Code is indented by four characters, or between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence && !line.starts_with("    ")
    })
}

/// The anchors of a page, made of its headings as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line.strip_prefix('#') else { continue };
        let heading = heading.trim_start_matches('#').trim();
        let words = link.replace_all(heading, "$1").to_lowercase();
        let anchor: String = words
            .chars()
            .filter(|it| it.is_alphanumeric() || "-_ ".contains(*it))
            .map(|it| if it == ' ' { '-' } else { it })
            .collect();
        let next = (1..).map(|nth| format!("{anchor}-{nth}"));
        let free = std::iter::once(anchor.clone()).chain(next).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let code = Regex::new("`[^`]*`").unwrap();
    let mut faults = Vec::new();
    let mut count = 0;
    for (path, text) in &pages {
        for (nth, line) in prose(text) {
            let words = code.replace_all(line, "");
            for found in link.captures_iter(&words) {
                let target = &found[1];
                if target.contains(':') {
                    continue;
                }
                count += 1;
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = match file {
                    "" => path.clone(),
                    file => normal(&path.parent().unwrap().join(file)),
                };
                let is_there = root().join(&file).exists();
                let is_anchored = anchor.is_empty()
                    || pages.get(&file).is_some_and(|page| anchors(page).contains(anchor));
                if !is_there || !is_anchored {
                    faults.push(format!("{}:{}: {target}", path.display(), nth + 1));
                }
            }
        }
    }
    assert!(count > 300, "{count} links");
    assert!(faults.is_empty(), "links that lead nowhere:\n{}", faults.join("\n"));
}

/// A path without `..` in it.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part.as_os_str().to_str().unwrap() {
            "." => {}
            ".." => drop(found.pop()),
            name => found.push(name),
        }
    }
    found
}

/// Files and folders that the page about the architecture names exist.
#[test]
fn each_page_is_in_the_site_and_says_for_whom_it_is() {
    let summary = read("docs/SUMMARY.md");
    for (path, text) in pages() {
        let Ok(page) = path.strip_prefix("docs") else { continue };
        let page = page.to_str().unwrap();
        if page == "SUMMARY.md" {
            continue;
        }
        assert!(summary.contains(&format!("]({page})")), "{page} is not in docs/SUMMARY.md");
        let begins = text.lines().nth(2).unwrap();
        assert!(begins.starts_with("For ") || page == "README.md", "{page}: {begins}");
    }
}

#[test]
fn the_architecture_names_paths_that_exist() {
    const PAGE: &str = "docs/architecture.md";
    let path = Regex::new(r"`([a-z_/]+(?:\.rs|/))`").unwrap();
    let page = read(PAGE);
    let named: BTreeSet<&str> =
        path.captures_iter(&page).map(|it| it.extract::<1>().1[0]).collect();
    let exists =
        |path: &&str| ["", "src", "tests"].iter().any(|it| root().join(it).join(path).exists());
    let missing: Vec<&str> = named.iter().filter(|path| !exists(path)).copied().collect();
    assert!(named.len() > 40, "{} paths", named.len());
    assert!(missing.is_empty(), "{PAGE}: {missing:?}");
}

/// The rendered pictures show the text of their sources: `make pictures` was run after the last change.
#[test]
fn pictures_are_those_of_their_sources() {
    let label = Regex::new(r#"label="([^"]+)""#).unwrap();
    let shown = Regex::new(r">([^<>]+)</text>").unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("docs/pictures")).unwrap() {
        let source = entry.unwrap().path();
        if source.extension().is_none_or(|it| it != "dot") {
            continue;
        }
        count += 1;
        let picture = source.with_extension("svg");
        let [dot, svg] = [&source, &picture].map(|it| std::fs::read_to_string(it).unwrap());
        // Graphviz escapes hyphens.
        let svg = svg.replace("&#45;", "-");
        let labels: BTreeSet<&str> =
            label.captures_iter(&dot).flat_map(|it| it.extract::<1>().1[0].split(r"\n")).collect();
        let texts: BTreeSet<&str> =
            shown.captures_iter(&svg).map(|it| it.extract::<1>().1[0]).collect();
        assert_eq!(texts, labels, "{}: run `make pictures`", picture.display());
    }
    assert_eq!(count, 4);
}

/// Each alert has a section of its own in the page about alerts, and a link to it; nothing else has one.
#[test]
fn every_alert_is_explained() {
    const PAGE: &str = "docs/operating/alerts.md";
    let page = read(PAGE);
    let (_, explained) = page.split_once("\n# ").map_or(("", page.as_str()), |it| it);
    let explained: Vec<&str> = explained
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|it| it.starts_with("Berth") || it.starts_with("Cloud"))
        .filter(|it| !it.contains(' '))
        .collect();
    let rules = read("deploy/prometheus/berth.rules.yml");
    let mut alerts = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let alert = rule.lines().next().unwrap().trim();
        let link = format!("runbook_url: \"{PAGE}#{}\"", alert.to_lowercase());
        assert!(rule.contains(&link), "{alert} has no {link}");
        alerts.push(alert);
    }
    assert!(alerts.len() > 10);
    assert_eq!(explained, alerts, "{PAGE} and the rules, in this order");
}

/// The output of each `$ berth` in the pages: the command, and its lines.
fn samples() -> Vec<(PathBuf, String, Vec<String>)> {
    let mut found = Vec::new();
    for (path, text) in pages() {
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.trim_start().strip_prefix("$ berth ") else { continue };
            let is_fenced = !line.starts_with(' ');
            let is_output = |line: &&str| {
                let is_inside = line.is_empty() || line.starts_with("    ") || is_fenced;
                is_inside && *line != "```" && !line.contains("$ berth ")
            };
            let mut output = Vec::new();
            while let Some(line) = lines.next_if(is_output) {
                output.push(line.trim_start().to_owned());
            }
            found.push((path.clone(), command.to_owned(), output));
        }
    }
    found
}

/// The headings of a table in capitals; none if the line is not the first one of a table.
fn cells(line: &str) -> Vec<&str> {
    let cells: Vec<&str> =
        line.trim().split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    let is_heading =
        |it: &&str| it.chars().all(|letter| letter.is_ascii_uppercase() || letter == ' ');
    if cells.len() > 1 && cells.iter().all(is_heading) { cells } else { Vec::new() }
}

/// All sources of the commands.
fn sources_of_commands() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("src/cli")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    text
}

#[test]
fn samples_of_output_have_the_columns_and_subjects_of_the_commands() {
    let sources = sources_of_commands();
    let (mut faults, mut checked) = (Vec::new(), 0);
    for (path, command, output) in samples() {
        let words = |line: &str| line.split("  ").map(str::trim).map(str::to_owned).collect();
        let named: Vec<String> = if command.starts_with("check ") {
            let subject = |line: &String| {
                line.split("  ").filter(|it| !it.is_empty()).nth(1).map(|it| it.trim().to_owned())
            };
            let is_finding = |it: &&String| {
                ["ok ", "warning ", "failure "].iter().any(|verdict| it.starts_with(verdict))
            };
            output.iter().filter(is_finding).filter_map(subject).collect()
        } else if command.starts_with("members") {
            output.first().map_or_else(Vec::new, |line| words(line))
        } else {
            output.iter().flat_map(|line| cells(line)).map(str::to_owned).collect()
        };
        for name in named.iter().filter(|it| !it.is_empty()) {
            checked += 1;
            // Columns of classes have the class before FREE.
            if !sources.contains(&format!("\"{name}\"")) && !name.ends_with(" FREE") {
                faults.push(format!("{}: berth {command}: {name}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "names that no command prints:\n{}", faults.join("\n"));
    assert!(checked > 60, "{checked}");
}
