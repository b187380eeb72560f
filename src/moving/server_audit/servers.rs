//! Judges a server: compares its allocations with its host in nova.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::classify::{Audit, Fix, Verdict, found};
use super::cloud::{Place, Server, ServerState};
use super::finding::Reason;
use super::kind::Kind;
use super::placement::{Allocations, Details, Held, Resources};

/// The classes whose amounts the flavor alone determines.
const PLAIN_CLASSES: [&str; 3] = ["VCPU", "MEMORY_MB", "DISK_GB"];

impl Audit<'_> {
    pub(super) fn server(&self, uuid: Uuid, server: &Server, details: Option<&Details>) -> Verdict {
        match server.state {
            ServerState::Busy(_) => return Verdict::Left(Reason::Busy),
            ServerState::Unknown => return Verdict::Left(Reason::Elsewhere),
            ServerState::Settled if self.is_recent(server.changed) => {
                return Verdict::Left(Reason::Recent);
            }
            ServerState::Settled => {}
        }
        let nothing = Allocations::new();
        let held = self.placement.consumers.get(&uuid).map_or(&nothing, |it| &it.allocations);
        let root = match &server.place {
            Place::Nowhere if held.is_empty() => return Verdict::Fine,
            Place::Nowhere => {
                let evidence =
                    format!("it is on no host, and holds {}", self.placement.words(held));
                return found(Kind::WithoutHost, evidence, Fix::Hold(Allocations::new()));
            }
            Place::Named(names) => self.placement.root_named(names),
        };
        let Some(root) = root else { return Verdict::Left(Reason::UnknownHost) };
        self.server_on(root, uuid, server, held, details)
    }

    /// Judges a server on a host whose provider is known.
    fn server_on(
        &self,
        root: Uuid,
        uuid: Uuid,
        server: &Server,
        held: &Allocations,
        details: Option<&Details>,
    ) -> Verdict {
        let host = self.placement.name_of(&root);
        let is_own = |provider: &Uuid| self.placement.root_of(provider) == Some(root);
        let is_shared =
            |provider: &Uuid| self.placement.providers.get(provider).is_some_and(|it| it.shares);
        let has_own = held.keys().any(is_own);
        let (kept, other): (Allocations, Allocations) = held
            .iter()
            .map(|(provider, resources)| (*provider, resources.clone()))
            .partition(|(provider, _)| is_own(provider) || is_shared(provider));
        if !has_own && (!other.is_empty() || kept.is_empty()) {
            if held.is_empty() {
                let evidence = format!("it runs on {host}, and holds nothing");
                return found(Kind::NoAllocations, evidence, creation(root, uuid, server));
            }
            let elsewhere = self.placement.words(&other);
            let evidence = format!("it runs on {host}, and holds {elsewhere}");
            let question = format!(
                "either it runs on {host} as nova says, and must hold that (nova-manage placement \
                 heal_allocations --force --instance {uuid}), or it runs where it holds, and nova is wrong"
            );
            return found(Kind::WrongHost, evidence, Fix::Ask(question));
        }
        if !other.is_empty() {
            let evidence =
                format!("it runs on {host}, and also holds {}", self.placement.words(&other));
            let fix = if server.failed {
                Fix::Ask(format!(
                    "the server has failed: either it is on {host} as nova says, and the rest can be taken \
                     from it, or it is elsewhere; look at both hosts"
                ))
            } else {
                Fix::Hold(kept)
            };
            return found(Kind::SeveralHosts, evidence, fix);
        }
        if let Some(evidence) = details.and_then(|details| other_owner(server, &details.held)) {
            return found(Kind::WrongOwner, evidence, Fix::Own);
        }
        amounts(root, uuid, server, held)
    }
}

/// Describes the owner of the allocations, if it differs from nova's.
fn other_owner(server: &Server, held: &Held) -> Option<String> {
    let differs = |what: &str, novas: &Option<String>, held: &Option<String>| {
        let (Some(novas), Some(held)) = (novas, held) else { return None };
        (novas != held).then(|| format!("{what} {held} instead of {novas}"))
    };
    let project = differs("project", &server.project, &held.project_id);
    let user = differs("user", &server.user, &held.user_id);
    let both: Vec<String> = project.into_iter().chain(user).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

/// The fix for a server without allocations.
fn creation(root: Uuid, uuid: Uuid, server: &Server) -> Fix {
    let by_nova = format!("nova-manage placement heal_allocations --instance {uuid}");
    let Some(needs) = &server.needs else {
        return Fix::Ask(format!(
            "the list of servers has no amounts, so nova makes them: {by_nova}; or audit with pages of \
             GET /servers/detail"
        ));
    };
    if let Some(obstacle) = &needs.obstacle {
        return Fix::Ask(format!(
            "{obstacle}, which the host's provider alone cannot give: {by_nova}, or shelve and unshelve \
             the server"
        ));
    }
    if server.project.is_none() || server.user.is_none() {
        return Fix::Ask(format!("its project and user are unknown: {by_nova}"));
    }
    Fix::Create(BTreeMap::from([(root, needs.resources.clone())]))
}

/// Compares amounts with the flavor.
fn amounts(root: Uuid, uuid: Uuid, server: &Server, held: &Allocations) -> Verdict {
    let Some(needs) = &server.needs else { return Verdict::Fine };
    let Some(difference) = needs.difference(held) else { return Verdict::Fine };
    let plain = |resources: &Resources| {
        resources.keys().all(|class| PLAIN_CLASSES.contains(&class.as_str()))
    };
    let is_simple = held.len() == 1
        && held.get(&root).is_some_and(plain)
        && plain(&needs.resources)
        && needs.obstacle.is_none();
    let fix = if is_simple {
        Fix::Hold(BTreeMap::from([(root, needs.resources.clone())]))
    } else {
        Fix::Ask(format!(
            "it holds more than its flavor decides: either the amounts were meant, or nova makes them \
             anew: nova-manage placement heal_allocations --force --instance {uuid}"
        ))
    };
    found(Kind::WrongAmounts, difference, fix)
}
