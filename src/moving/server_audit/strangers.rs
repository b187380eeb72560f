//! Judging a consumer that is no server that nova has: a deleted one, a migration, or an orphan.

use uuid::Uuid;

use super::classify::{Audit, Fix, Verdict, found};
use super::cloud::{FromDatabase, Migration, State};
use super::finding::{Reason, shown};
use super::kind::Kind;
use super::placement::{Allocations, Consumer, Details, Resources};

/// The types of nova's consumers. It has not set any so far.
const NOVA_TYPES: [&str; 2] = ["INSTANCE", "MIGRATION"];

/// The classes that only nova claims, by `nova-manage placement audit`. Of a consumer that holds
/// none of them it is not known whose it is.
const NOVA_CLASSES: [&str; 8] = [
    "VCPU",
    "PCPU",
    "MEMORY_MB",
    "DISK_GB",
    "VGPU",
    "MEM_ENCRYPTION_CONTEXT",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
];

impl Audit<'_> {
    /// Judges a consumer that is no server that nova has. `busy` are the projects of servers that may
    /// have migrations which a list of servers does not name.
    pub(super) fn stranger(
        &self,
        uuid: Uuid,
        consumer: &Consumer,
        details: Option<&Details>,
        busy: &[String],
    ) -> Verdict {
        let kind = details.and_then(|details| details.kind.as_deref());
        if kind.is_some_and(|kind| !NOVA_TYPES.contains(&kind)) {
            return Verdict::Left(Reason::NotNovas);
        }
        let held = self.placement.words(&consumer.allocations);
        let removal = Fix::Hold(Allocations::new());
        if let Some(migration) = self.database().and_then(|it| it.migrations.get(&uuid)) {
            return self.migration(migration, &held);
        }
        if let Some(deleted) = self.cloud.deleted.get(&uuid) {
            if self.is_recent(*deleted) {
                return Verdict::Left(Reason::Recent);
            }
            let when = deleted.map_or_else(String::new, |time| format!(" at {}", shown(time)));
            let evidence = format!("nova has deleted it{when}; it holds {held}");
            return found(Kind::DeletedServer, evidence, removal);
        }
        let elsewhere = self.database().and_then(|it| it.elsewhere.as_ref());
        if elsewhere.is_some_and(|elsewhere| elsewhere.contains(&uuid)) {
            return Verdict::Left(Reason::Elsewhere);
        }
        let mut classes = consumer.allocations.values().flat_map(Resources::keys);
        if !classes.any(|class| NOVA_CLASSES.contains(&class.as_str())) {
            return Verdict::Left(Reason::NotNovas);
        }
        let project = details.and_then(|details| details.held.project_id.as_ref());
        if kind != Some("INSTANCE") && project.is_some_and(|project| busy.contains(project)) {
            return Verdict::Left(Reason::MaybeMigration);
        }
        let evidence = format!("it holds {held}");
        // Without nova's API database, it is not known whether all cells were read.
        if let Some(FromDatabase { nodes, elsewhere: None, .. }) = self.database() {
            let roots = consumer.allocations.keys().filter_map(|it| self.placement.root_of(it));
            let strange: Vec<Uuid> = roots.filter(|root| !nodes.contains_key(root)).collect();
            if let Some(root) = strange.first() {
                let host = self.placement.name_of(root);
                let question = format!(
                    "no cell that was read has the host {host}: either its cell was not read (name nova's \
                     API database, too), or the host is gone and the allocations can be removed"
                );
                return found(Kind::Orphan, evidence, Fix::Ask(question));
            }
        }
        found(Kind::Orphan, evidence, removal)
    }

    fn migration(&self, migration: &Migration, held: &str) -> Verdict {
        let server = migration.server.and_then(|uuid| self.cloud.servers.get(&uuid));
        if !migration.has_ended() || server.is_some_and(|it| matches!(it.state, State::Busy(_))) {
            return Verdict::Left(Reason::Busy);
        }
        if self.is_recent(migration.changed) {
            return Verdict::Left(Reason::Recent);
        }
        let of = migration.server.map_or_else(String::new, |uuid| format!(" of server {uuid}"));
        let Migration { kind, status, .. } = migration;
        let evidence = format!("its {kind}{of} is {status}; it holds {held}");
        found(Kind::EndedMigration, evidence, Fix::Hold(Allocations::new()))
    }
}
