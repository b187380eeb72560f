//! Resources that a plan is made without.

use super::pipes::PIPES;

/// A resource that a plan is made without, or that it takes only a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its orchestration id, as it was written.
    pub(crate) id: String,
    /// Its type.
    pub(crate) kind: String,
    /// What is ignored of it.
    pub(crate) why: String,
}

/// Why resources of a type that is not placed are ignored.
pub(super) fn why_ignored(kind: &str) -> &'static str {
    match kind {
        "OS::Cinder::Volume" => "volumes are not planned: there is no storage backend",
        "OS::Cinder::VolumeAttachment" => {
            "attachments are not planned: servers are placed without regard to their volumes"
        }
        kind if PIPES.contains(&kind) => {
            "pipes are not planned: no provider has an inventory of bandwidth"
        }
        _ => "resources of this type are not planned",
    }
}
