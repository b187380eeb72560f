//! The overview of the commands in `berth --help`, and advice for names that people try first.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run", &["serve", "members", "maintenance", "db", "config", "policy", "completions", "man"]),
    ("Check", &["check", "health", "debug"]),
    ("Look at a cloud", &["ls", "show", "tree", "watch", "history"]),
    ("Ask why, and how many more fit", &["why", "explain", "candidates", "fit", "fragmentation"]),
    ("Plan", &["moves", "drain", "rebalance", "flavor", "aggregate", "group"]),
    ("Change allocations", &["claim", "release"]),
    ("Move in", &["import", "export", "compare", "shadow", "audit", "heal"]),
];

/// Commands that do not exist, and what to use instead.
const WRONG_NAMES: [(&str, &str); 11] = [
    ("status", "`berth health --ready` asks the server, `berth db status` the schema"),
    ("version", "`berth --version`"),
    ("start", "`berth serve`"),
    ("backup", "`berth db dump`"),
    ("restore", "`berth db restore`"),
    ("migrate", "`berth db migrate`"),
    ("logs", "`journalctl -u berth`"),
    ("upgrade-check", "`berth check --upgrade`"),
    ("db audit", "`berth db check`"),
    ("config import", "`berth config convert`"),
    (
        "config dump",
        "`berth config show` shows the options of a running server, `berth config check` those of the files",
    ),
];

/// Shows the subcommands in groups.
#[must_use]
pub(super) fn grouped(command: clap::Command) -> clap::Command {
    let lengths = command.get_subcommands().map(|inner| inner.get_name().len());
    let width = lengths.fold(0, usize::max);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.extend([title, ":\n"]);
        for inner in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = inner.get_about().map_or_else(String::new, ToString::to_string);
            let name = format!("  {:width$}  ", inner.get_name());
            text.extend([name.as_str(), about.as_str()]);
            text.extend(inner.get_visible_aliases().flat_map(|alias| [", also `", alias, "`"]));
            text.push('\n');
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

/// Adds advice to an error about a command that does not exist. `words` are the arguments.
pub(super) fn advise(error: &mut clap::Error, words: &[&str]) {
    let is_named = |name: &str| words.starts_with(&name.split(' ').collect::<Vec<_>>());
    if let Some((_, instead)) = WRONG_NAMES.iter().find(|(name, _)| is_named(name)) {
        let tip = StyledStr::from((*instead).to_owned());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        error.remove(ContextKind::SuggestedSubcommand);
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, advise};
    use crate::cli::commands::command;

    #[test]
    fn names_that_people_try_first_have_advice() {
        for (words, tip) in [
            (&["status"][..], "`berth db status` the schema\n"),
            (&["config", "dump"], "tip: `berth config show` shows the options of a running server"),
            (&["tre"], "tip: a similar subcommand exists: 'tree'\n"),
        ] {
            let arguments = ["berth"].iter().chain(words);
            let mut error = command().try_get_matches_from(arguments).unwrap_err();
            advise(&mut error, words);
            assert!(error.to_string().contains(tip), "{error}");
        }
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        let help = command.clone().render_long_help().to_string();
        assert!(help.contains("\nMove in:\n  import "), "{help}");
    }
}
