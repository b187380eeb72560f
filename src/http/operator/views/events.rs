//! Events: the lines of `GET /-/v1/events`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::events::{Change, MadeBy};

/// A line of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number. Numbers increase, but are not consecutive.
    pub number: i64,
    /// Time of the change in RFC 3339 form; `None` for notices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The change or notice.
    #[serde(flatten)]
    pub message: Message,
    /// The author of the change.
    #[serde(flatten)]
    pub made_by: MadeBy,
}

/// A change, or a notice about the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Message {
    /// A change.
    Change(Change),
    /// A notice.
    Notice(Notice),
}

/// A notice about the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// All changes up to the number have been sent.
    Position {},
    /// The stream ends, and events are missing.
    Gap {
        /// The reason, and what to do.
        detail: String,
    },
    /// The stream ends. The client can continue from the number.
    End {
        /// The reason.
        detail: String,
    },
}
