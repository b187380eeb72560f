//! Entries as events of CADF, the Cloud Auditing Data Federation (DMTF DSP0262), which OpenStack's other
//! services emit by pycadf.

use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::contents::{EntryContents, Outcome};
use super::text::{changes, instant};
use crate::store::effects::Effect;

const EVENT: &str = "http://schemas.dmtf.org/cloud/audit/1.0/event";
/// The type of a caller.
const USER: &str = "service/security/account/user";
/// The type of this service, and the prefix of the types of its resources.
const SERVICE: &str = "service/placement";
/// The id of an unknown initiator.
const UNKNOWN: &str = "unknown";

/// Returns the event of a request.
pub(super) fn event(contents: &EntryContents<'_>) -> Value {
    let EntryContents { request, response, .. } = contents;
    let caller = response.and_then(|response| response.caller.as_deref());
    let user = caller.and_then(|caller| caller.user.as_deref());
    let reason = |status: u16| json!({"reasonType": "HTTP", "reasonCode": status.to_string()});
    json!({
        "typeURI": EVENT,
        "id": Uuid::new_v4(),
        "eventType": "activity",
        "eventTime": instant(contents.began),
        "action": action(&request.method),
        "outcome": Outcome::of(*response).name(),
        "initiator": {
            "id": user.map_or_else(|| json!(UNKNOWN), |user| json!(user)),
            "typeURI": USER,
            "host": {"address": request.remote},
            "request_id": request.request_id,
            "global_request_id": request.global_request_id,
            "project_id": caller.and_then(|caller| caller.project.as_deref()),
            "roles": caller.map(|caller| caller.roles.as_slice()),
            "service_user": caller.and_then(|caller| caller.service_user.as_deref()),
        },
        "target": target(contents),
        "observer": {"id": "target"},
        "reason": response.map(|response| reason(response.status)),
        "requestPath": request.path,
        "attachments": [{
            "name": "changes",
            "typeURI": "application/json",
            "content": changes(contents),
        }],
    })
}

/// Returns an event for the number of events missing before it.
pub(super) fn dropped(count: u64, now: OffsetDateTime) -> Value {
    json!({
        "typeURI": EVENT,
        "id": Uuid::new_v4(),
        "eventType": "monitor",
        "eventTime": instant(now),
        "action": UNKNOWN,
        "outcome": "failure",
        "initiator": {"id": "berth", "typeURI": SERVICE},
        "target": {"id": "audit-log", "typeURI": "service/placement/audit"},
        "observer": {"id": "initiator"},
        "attachments": [{
            "name": "dropped",
            "typeURI": "application/json",
            "content": {"dropped": count},
        }],
    })
}

/// Returns the main target of the request: the first thing changed, or else the path.
fn target(contents: &EntryContents<'_>) -> Value {
    match contents.effects.first() {
        Some(Effect { kind: of, id, .. }) => {
            json!({"id": id, "typeURI": format!("{SERVICE}/{}", of.name())})
        }
        None => json!({"id": contents.request.path, "typeURI": SERVICE}),
    }
}

fn action(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "DELETE" => "delete",
        _ => "update",
    }
}
