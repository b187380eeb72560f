//! Candidates as clients see them, written straight to bytes while they are found.
//!
//! The one place where an answer is not a view: there may be very many candidates, and clients wait
//! for them. What depends on the version is decided once, in [`Shape`].

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::Bytes;
use uuid::Uuid;

use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, MAPPINGS, Microversion, NESTED_CANDIDATES, REQUIRED_TRAITS,
    SUMMARIES_SHOW_ALL_CLASSES,
};
use crate::model::ClassId;
use crate::search::{Candidate, Next, Request, Search};
use crate::world::{Provider, World};

/// How much is gathered before it is sent, in bytes.
const PART: usize = 64 * 1024;

/// What a version shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing a version shows")]
pub(super) struct Shape {
    by_provider: bool,
    mappings: bool,
    traits: bool,
    family: bool,
    /// The classes that summaries show; `None`: all.
    classes: Option<Vec<ClassId>>,
}

impl Shape {
    /// Of the answer to a request.
    pub(super) fn of(asked: Microversion, request: &Request, world: &World) -> Self {
        let named = request.groups.iter().flat_map(|group| &group.resources);
        let requested = named.filter_map(|(class, _)| world.class_id(class)).collect();
        Self {
            by_provider: asked.has(ALLOCATIONS_BY_PROVIDER),
            mappings: asked.has(MAPPINGS),
            traits: asked.has(REQUIRED_TRAITS),
            family: asked.has(NESTED_CANDIDATES),
            classes: (!asked.has(SUMMARIES_SHOW_ALL_CLASSES)).then_some(requested),
        }
    }
}

/// An answer being written.
#[derive(Debug)]
pub(super) struct Writing {
    world: Arc<World>,
    search: Search,
    shape: Shape,
    text: Text,
    /// How many candidates there were.
    candidates: usize,
}

/// Why writing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// There is enough to send.
    Full,
    /// The search wants to know whether anybody still waits.
    Paused,
    /// All candidates are written; the summaries are not.
    Exhausted,
}

impl Writing {
    /// Of what a search will find.
    pub(super) fn new(search: Search, shape: Shape) -> Self {
        let mut text = Text::default();
        text.push("{\"allocation_requests\":[");
        Self { world: Arc::clone(search.world()), search, shape, text, candidates: 0 }
    }

    /// How many candidates there were so far.
    pub(super) fn candidates(&self) -> usize {
        self.candidates
    }

    /// Writes candidates until there is a reason to stop.
    pub(super) fn write_candidates(&mut self) -> Stopped {
        loop {
            if self.text.0.len() >= PART {
                return Stopped::Full;
            }
            match self.search.next_candidate() {
                Next::Found(candidate) => {
                    if self.candidates > 0 {
                        self.text.push(",");
                    }
                    self.candidates += 1;
                    self.text.candidate(candidate, &self.shape, &self.world);
                }
                Next::Paused => return Stopped::Paused,
                Next::Exhausted => return Stopped::Exhausted,
            }
        }
    }

    /// Whether the summaries are so few that writing them takes no time worth mentioning.
    pub(super) fn ends_soon(&self) -> bool {
        self.search.summarised().nth(500).is_none()
    }

    /// What is written and not yet taken.
    pub(super) fn take(&mut self) -> Bytes {
        self.text.part()
    }

    /// Writes the summaries and the end, handing over what is enough to send, until nobody takes
    /// it. Gives the rest.
    pub(super) fn finish(
        mut self,
        mut send: impl FnMut(Bytes) -> ControlFlow<()>,
    ) -> ControlFlow<(), Bytes> {
        self.text.push("],\"provider_summaries\":{");
        for (number, provider) in self.search.summarised().enumerate() {
            if self.text.0.len() >= PART {
                send(self.text.part())?;
            }
            if number > 0 {
                self.text.push(",");
            }
            self.text.summary(&provider, &self.shape, &self.world);
        }
        self.text.push("}}");
        ControlFlow::Continue(self.text.0.into())
    }
}

/// JSON being written. Names of classes and traits, suffixes and UUIDs need no escaping.
#[derive(Debug, Default)]
struct Text(Vec<u8>);

impl Text {
    /// What is written so far; the rest is written into a room that will hold a part.
    fn part(&mut self) -> Bytes {
        std::mem::replace(&mut self.0, Vec::with_capacity(PART + PART / 8)).into()
    }

    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn uuid(&mut self, uuid: Uuid) {
        let mut buffer = Uuid::encode_buffer();
        self.push("\"");
        self.push(uuid.hyphenated().encode_lower(&mut buffer));
        self.push("\"");
    }

    fn number(&mut self, number: i64) {
        // Writing to memory cannot fail.
        drop(write!(self.0, "{number}"));
    }

    fn candidate(&mut self, candidate: Candidate<'_>, shape: &Shape, world: &World) {
        let (open, close) = if shape.by_provider { ("{", "}") } else { ("[", "]") };
        self.push("{\"allocations\":");
        self.push(open);
        for (number, (provider, amounts)) in candidate.allocations().enumerate() {
            if number > 0 {
                self.push(",");
            }
            if shape.by_provider {
                self.uuid(provider.uuid());
                self.push(":{\"resources\":{");
            } else {
                self.push("{\"resource_provider\":{\"uuid\":");
                self.uuid(provider.uuid());
                self.push("},\"resources\":{");
            }
            self.amounts(amounts, world);
            self.push("}}");
        }
        self.push(close);
        if shape.mappings {
            self.mappings(candidate);
        }
        self.push("}");
    }

    fn amounts(&mut self, amounts: &[(ClassId, i64)], world: &World) {
        for (number, (class, amount)) in amounts.iter().enumerate() {
            self.push(if number > 0 { ",\"" } else { "\"" });
            self.push(world.class_name(*class).unwrap_or_default());
            self.push("\":");
            self.number(*amount);
        }
    }

    fn mappings(&mut self, candidate: Candidate<'_>) {
        self.push(",\"mappings\":{");
        for (number, (suffix, providers)) in candidate.mappings().enumerate() {
            self.push(if number > 0 { ",\"" } else { "\"" });
            self.push(suffix);
            self.push("\":[");
            for (number, provider) in providers.enumerate() {
                if number > 0 {
                    self.push(",");
                }
                self.uuid(provider.uuid());
            }
            self.push("]");
        }
        self.push("}");
    }

    fn summary(&mut self, provider: &Provider<'_>, shape: &Shape, world: &World) {
        self.uuid(provider.uuid());
        self.push(":{\"resources\":{");
        let classes = shape.classes.as_ref();
        let shown = |class| classes.is_none_or(|classes| classes.contains(&class));
        let inventories = provider.inventories().filter(|row| shown(row.class));
        for (number, row) in inventories.enumerate() {
            self.push(if number > 0 { ",\"" } else { "\"" });
            self.push(world.class_name(row.class).unwrap_or_default());
            self.push("\":{\"capacity\":");
            self.number(row.terms.capacity());
            self.push(",\"used\":");
            self.number(row.used);
            self.push("}");
        }
        self.push("}");
        if shape.traits {
            self.traits(provider, world);
        }
        if shape.family {
            self.push(",\"parent_provider_uuid\":");
            match provider.parent() {
                Some(parent) => self.uuid(parent.uuid()),
                None => self.push("null"),
            }
            self.push(",\"root_provider_uuid\":");
            self.uuid(provider.root().uuid());
        }
        self.push("}");
    }

    fn traits(&mut self, provider: &Provider<'_>, world: &World) {
        self.push(",\"traits\":[");
        for (number, id) in provider.traits().iter().enumerate() {
            self.push(if number > 0 { ",\"" } else { "\"" });
            self.push(world.trait_name(*id).unwrap_or_default());
            self.push("\"");
        }
        self.push("]");
    }
}

#[cfg(test)]
mod tests;
