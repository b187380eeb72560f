//! Judging a consumer that is no server that nova has: a deleted one, or an orphan.

use uuid::Uuid;

use super::classify::{Audit, Fix, Verdict, found};
use super::finding::Reason;
use super::kind::Kind;
use super::placement::{Allocations, Consumer, Details, Resources};

/// The types of nova's consumers. nova has not set any so far.
const NOVA_TYPES: [&str; 2] = ["INSTANCE", "MIGRATION"];

/// The classes that only nova claims, according to `nova-manage placement audit`. A consumer without any of them may
/// belong to another service.
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
    /// Judges a consumer that is not an existing server. `busy` are the projects of servers that may have migrations
    /// which a list of servers omits.
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
        if self.cloud.deleted.contains(&uuid) {
            let evidence = format!("nova has deleted it; it holds {held}");
            return found(Kind::DeletedServer, evidence, removal);
        }
        let mut classes = consumer.allocations.values().flat_map(Resources::keys);
        if !classes.any(|class| NOVA_CLASSES.contains(&class.as_str())) {
            return Verdict::Left(Reason::NotNovas);
        }
        let project = details.and_then(|details| details.held.project_id.as_ref());
        if kind != Some("INSTANCE") && project.is_some_and(|project| busy.contains(project)) {
            return Verdict::Left(Reason::MaybeMigration);
        }
        found(Kind::Orphan, format!("it holds {held}"), removal)
    }
}
