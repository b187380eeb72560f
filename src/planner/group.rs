//! Groups that are stored: what they ask of the servers in them, whichever plan these are of, and
//! which projects may use them.

use std::collections::{HashMap, HashSet};

use thiserror::Error;
use uuid::Uuid;

use super::ids;
use crate::solver::Level;
use crate::solver::groups::Kind;

/// What a name must be, in words.
pub const NAME_RULE: &str = "must contain only uppercase and lowercase letters, decimal digits, \
                             hyphens, periods, underscores, and tildes [RFC 3986, Section 2.3]";
/// Servers that a refusal names at the most.
const SERVERS_MAX: usize = 100;

/// The words for kinds.
const KINDS: [(Kind, &str); 3] = [
    (Kind::Affinity, "affinity"),
    (Kind::Diversity, "diversity"),
    (Kind::Exclusivity, "exclusivity"),
];
/// The words for levels.
const LEVELS: [(Level, &str); 3] =
    [(Level::Host, "host"), (Level::Rack, "rack"), (Level::Cluster, "cluster")];

/// A stored group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// Its identity.
    pub id: Uuid,
    /// Its name, which no other group has.
    pub name: String,
    /// What it asks of its servers.
    pub kind: Kind,
    /// Of which units; `None` if nobody said: of hosts.
    pub level: Option<Level>,
    /// What people say of it.
    pub description: Option<String>,
    /// Moves with every plan that changes where its servers are, and with every member that leaves.
    pub generation: i64,
    /// Projects, as they were spelled when they came, in the order in which they came.
    pub members: Vec<String>,
}

impl StoredGroup {
    /// Of which units it asks something.
    pub fn effective_level(&self) -> Level {
        self.level.unwrap_or(Level::Host)
    }

    /// Whether a project is a member, however it is spelled.
    pub fn has_member(&self, project: &str) -> bool {
        self.spelling(project).is_some()
    }

    /// How a member was spelled when it came; `None` if the project is not one.
    pub fn spelling(&self, project: &str) -> Option<&str> {
        let project = ids::canonical(project);
        let is_it = |member: &&String| ids::canonical(member) == project;
        self.members.iter().find(is_it).map(String::as_str)
    }
}

/// Why a group is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such group.
    #[error("Group not found")]
    NotFound,
    /// Another group has the name.
    #[error("A group named {0} already exists")]
    NameTaken(String),
    /// The project is not in it.
    #[error("Member not found in group")]
    MemberNotFound,
    /// A group with members stays.
    #[error("Unable to delete a Group with members.")]
    HasMembers,
    /// A group with servers stays; their ids.
    #[error("Unable to delete a Group with placements: {}", listed(.0))]
    HasServers(Vec<String>),
    /// A member with servers stays.
    #[error("Tenant Member {member} has servers in group \"{group}\": {}", listed(.servers))]
    MemberHasServers {
        /// The project.
        member: String,
        /// The name of the group.
        group: String,
        /// Ids of the servers.
        servers: Vec<String>,
    },
}

fn listed(servers: &[String]) -> String {
    let mut shown: Vec<&str> = servers.iter().take(SERVERS_MAX).map(String::as_str).collect();
    if servers.len() > SERVERS_MAX {
        shown.push("...");
    }
    format!("[{}]", shown.join(", "))
}

/// Whether a text can be the name of a group: at least one character, all of them unreserved.
pub fn is_name(text: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !text.is_empty() && text.bytes().all(unreserved)
}

/// The word for a kind.
pub fn kind_word(kind: Kind) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, word)| word)
}

/// The kind that a word stands for.
pub fn kind_named(word: &str) -> Option<Kind> {
    KINDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
}

/// The word for a level.
pub fn level_word(level: Level) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).map_or("", |(_, word)| word)
}

/// The level that a word stands for.
pub fn level_named(word: &str) -> Option<Level> {
    LEVELS.iter().find(|(_, known)| *known == word).map(|(level, _)| *level)
}

/// Which of `more` are not among `members` yet, each once, in their order.
pub fn new_members(members: &[String], more: &[String]) -> Vec<String> {
    let mut known: HashSet<String> = members.iter().map(|member| ids::canonical(member)).collect();
    more.iter().filter(|member| known.insert(ids::canonical(member))).cloned().collect()
}

/// Why one of these members cannot leave a group where these servers are: project and id of each.
pub fn keeps(
    group: &StoredGroup,
    leaving: &[String],
    servers: &[(String, String)],
) -> Option<Refusal> {
    let mut servers_of: HashMap<String, Vec<String>> = HashMap::new();
    for (project, server) in servers {
        servers_of.entry(ids::canonical(project)).or_default().push(server.clone());
    }
    leaving.iter().find_map(|member| {
        let servers = servers_of.remove(&ids::canonical(member))?;
        let (member, group) = (member.clone(), group.name.clone());
        Some(Refusal::MemberHasServers { member, group, servers })
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{KINDS, LEVELS, Refusal, StoredGroup};
    use crate::solver::groups::Kind;

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
            kind: Kind::Exclusivity,
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
    fn words_and_what_they_stand_for() {
        for (kind, word) in KINDS {
            assert_eq!((super::kind_named(word), super::kind_word(kind)), (Some(kind), word));
        }
        for (level, word) in LEVELS {
            assert_eq!((super::level_named(word), super::level_word(level)), (Some(level), word));
        }
        assert_eq!((super::kind_named("Affinity"), super::level_named("any")), (None, None));
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
        let refusal = super::keeps(&group(), &group().members, &servers).unwrap();
        assert_eq!(
            refusal.to_string(),
            format!("Tenant Member {A} has servers in group \"g\": [s1, s2]")
        );
        assert_eq!(super::keeps(&group(), &texts(&[B]), &servers), None);
    }

    #[test]
    fn a_refusal_names_a_bounded_number_of_servers() {
        let refusal = Refusal::HasServers(vec!["s".to_owned(); 1000]).to_string();
        assert!(refusal.len() < 500 && refusal.ends_with(", ...]"), "{refusal}");
    }
}
