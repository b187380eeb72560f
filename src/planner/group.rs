//! Stored groups: they bind servers of all plans, and say which projects may use them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::ids;
use super::json::{NAME_MAX, read_text};
use crate::model::{GroupKind, Level, Refusal};

/// The rule for names, as a clause.
pub const NAME_RULE: &str = "must contain only uppercase and lowercase letters, decimal digits, \
                             hyphens, periods, underscores, and tildes [RFC 3986, Section 2.3]";

/// A stored group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// Its id.
    pub id: Uuid,
    /// Its unique name.
    pub name: String,
    /// Its kind.
    pub kind: GroupKind,
    /// Its level; `None` means host.
    pub level: Option<Level>,
    /// A description for people.
    pub description: Option<String>,
    /// Increases with every booking that moves servers of the group, and with every member that leaves.
    pub generation: i64,
    /// Projects, in their original spelling and order.
    pub members: Vec<String>,
}

impl StoredGroup {
    /// The level at which it applies.
    pub fn effective_level(&self) -> Level {
        self.level.unwrap_or(Level::Host)
    }

    /// Returns whether a project is a member, in any spelling.
    pub fn has_member(&self, project: &str) -> bool {
        self.spelling(project).is_some()
    }

    /// The original spelling of a member; `None` if the project is not a member.
    pub fn spelling(&self, project: &str) -> Option<&str> {
        let project = ids::canonical(project);
        let is_it = |member: &&String| ids::canonical(member) == project;
        self.members.iter().find(is_it).map(String::as_str)
    }
}

/// Returns whether a text can be the name of a group: at least one character, all of them unreserved.
pub fn is_name(text: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !text.is_empty() && text.bytes().all(unreserved)
}

/// Returns whether a text can be the id of a project: a UUID with or without dashes.
pub fn is_project_id(text: &str) -> bool {
    [32, 36].contains(&text.len()) && Uuid::try_parse(text).is_ok()
}

/// Parses names and ids of groups in a text of metadata or of a flavor: a JSON array, or a list separated by
/// commas.
///
/// # Errors
/// The reason why an item cannot name a group.
pub(crate) fn listed(text: &str) -> Result<Vec<String>, String> {
    let items = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items,
        _ => text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(Value::from)
            .collect(),
    };
    items.iter().map(|item| read_text(item, NAME_MAX).map(str::to_owned)).collect()
}

/// The new members in `more`, each once, in their order.
pub fn new_members(members: &[String], more: &[String]) -> Vec<String> {
    let mut known: HashSet<String> = members.iter().map(|member| ids::canonical(member)).collect();
    more.iter().filter(|member| known.insert(ids::canonical(member))).cloned().collect()
}

/// Checks that members may leave a group. `servers` has project and id of each server in the group.
///
/// # Errors
/// `MemberHasServers`, for the first member with servers in the group.
pub fn check_leaving(
    group: &StoredGroup,
    leaving: &[String],
    servers: &[(String, String)],
) -> Result<(), Refusal> {
    let mut servers_of: HashMap<String, Vec<String>> = HashMap::new();
    for (project, server) in servers {
        servers_of.entry(ids::canonical(project)).or_default().push(server.clone());
    }
    let refusal = leaving.iter().find_map(|member| {
        let servers = servers_of.remove(&ids::canonical(member))?;
        let (member, group) = (member.clone(), group.name.clone());
        Some(Refusal::MemberHasServers { member, group, servers })
    });
    refusal.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::StoredGroup;
    use crate::model::GroupKind;

    const A: &str = "b7d0e9b175294b649464caa3411adb3f";
    const A_DASHED: &str = "b7d0e9b1-7529-4b64-9464-caa3411adb3f";
    const B: &str = "65c3e5ee5ee0428caa5e5275c58ead61";

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn group() -> StoredGroup {
        StoredGroup {
            id: Uuid::nil(),
            name: "g".to_owned(),
            kind: GroupKind::Exclusivity,
            level: None,
            description: None,
            generation: 0,
            members: texts(&[A, B]),
        }
    }

    #[test]
    fn names_have_unreserved_characters() {
        for name in ["a", "A-b_c.d~e", "0", "..."] {
            assert!(super::is_name(name), "{name}");
        }
        for other in ["", "gro up", "a/b", "ä", "a\n", "a%20", "a\u{0}"] {
            assert!(!super::is_name(other), "{other:?}");
        }
    }

    #[test]
    fn groups_are_listed_in_json_or_with_commas() {
        for (text, expected) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a, b,", &["a", "b"]),
            (r#"["a", "b,c"]"#, &["a", "b,c"]),
            ("[]", &[]),
            ("{}", &["{}"]),
        ] {
            assert_eq!(super::listed(text).unwrap(), texts(expected), "{text}");
        }
        assert!(super::listed("[1]").is_err() && super::listed(&"x".repeat(256)).is_err());
    }

    #[test]
    fn a_member_is_added_once_and_keeps_its_spelling() {
        let new = |known: &[&str], more: &[&str]| super::new_members(&texts(known), &texts(more));
        assert_eq!(new(&[], &[B, A, B, A_DASHED]), [B, A]);
        assert_eq!(new(&[A], &[A_DASHED, B]), [B]);
        assert!(group().has_member(A_DASHED));
    }

    #[test]
    fn a_member_with_servers_stays() {
        let servers = [(A_DASHED.to_owned(), "s1".to_owned()), (A.to_owned(), "s2".to_owned())];
        let refusal = super::check_leaving(&group(), &group().members, &servers).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!("Tenant Member {A} has servers in group \"g\": [s1, s2]")
        );
        assert_eq!(super::check_leaving(&group(), &texts(&[B]), &servers), Ok(()));
    }
}
