//! Writes candidates as JSON bytes while they are found.
//!
//! Only this response is not a view, because there may be many candidates and clients wait for
//! them. [`Shape`] holds all that depends on the version.

use std::sync::Arc;

use axum::body::Bytes;
use metrics::counter;
use tracing::field::Empty;

use crate::http::api::text::Text;
use crate::http::placement::microversion::{
    ALLOCATIONS_BY_PROVIDER, MAPPINGS, Microversion, NESTED_CANDIDATES, REQUIRED_TRAITS,
    SUMMARIES_SHOW_ALL_CLASSES,
};
use crate::model::ClassId;
use crate::observe::spans::{self, span};
use crate::search::{Candidate, Next, Request, Search};
use crate::world::{Provider, World};

/// Maximum work between two pauses, in search steps and inventories read for summaries: a few
/// milliseconds. Candidates may be rare, and many inventories may not be shown.
const WORK_AT_ONCE: u64 = 200_000;
/// With more parts than this, a search step is too large for a thread that serves requests.
const PARTS_MAX: usize = 32;

/// Fields shown by a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing a version shows")]
pub(super) struct Shape {
    by_provider: bool,
    mappings: bool,
    traits: bool,
    family: bool,
    /// The classes in summaries, sorted; `None`: all.
    classes: Option<Vec<ClassId>>,
}

impl Shape {
    /// Returns the shape of the response to a request.
    pub(super) fn of(microversion: Microversion, request: &Request, world: &World) -> Self {
        let named = request.groups.iter().flat_map(|group| &group.resources);
        let mut requested: Vec<_> = named.filter_map(|(class, _)| world.class_id(class)).collect();
        requested.sort_unstable();
        requested.dedup();
        Self {
            by_provider: microversion.has(ALLOCATIONS_BY_PROVIDER),
            mappings: microversion.has(MAPPINGS),
            traits: microversion.has(REQUIRED_TRAITS),
            family: microversion.has(NESTED_CANDIDATES),
            classes: (!microversion.has(SUMMARIES_SHOW_ALL_CLASSES)).then_some(requested),
        }
    }
}

/// A response being written.
#[derive(Debug)]
pub(super) struct Writing {
    world: Arc<World>,
    search: Search,
    shape: Shape,
    text: Text,
    /// Number of candidates so far.
    candidates: usize,
    /// Number of inventories read for summaries.
    looked_at: u64,
    stage: Stage,
}

/// Progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Candidates,
    /// Candidates are written; the summaries are being determined.
    Survey,
    /// Summaries, after the provider in this slot.
    Summaries(Option<u32>),
}

/// Reason for a pause or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Enough bytes are ready to send.
    Full,
    /// Much work was done: the caller may check that the client is still connected, and give other
    /// requests a turn.
    Paused,
    Done,
}

impl Drop for Writing {
    fn drop(&mut self) {
        counter!("berth_candidates_total").increment(self.candidates as u64);
        counter!("berth_candidate_search_steps_total").increment(self.search.steps());
    }
}

impl Writing {
    /// Starts a response to a search, with room for this many bytes.
    pub(super) fn new(search: Search, shape: Shape, room: usize) -> Self {
        let mut text = Text::with_room(room);
        text.push("{\"allocation_requests\":[");
        let world = Arc::clone(search.world());
        let stage = Stage::Candidates;
        Self { world, search, shape, text, candidates: 0, looked_at: 0, stage }
    }

    /// Returns whether a search step may take too long for a thread that serves requests.
    pub(super) fn is_large(&self) -> bool {
        self.search.parts() > PARTS_MAX
    }

    /// Returns the work done so far, in steps.
    fn work(&self) -> u64 {
        self.search.steps() + self.looked_at
    }

    /// Returns the number of candidates so far.
    pub(super) fn candidates(&self) -> usize {
        self.candidates
    }

    /// Returns whether the bytes written contain a candidate.
    pub(super) fn has_news(&self) -> bool {
        self.candidates > 0 && self.text.len() > 0
    }

    /// Takes the bytes written, and reserves `next` bytes for the next part.
    pub(super) fn take(&mut self, next: usize) -> Bytes {
        self.text.take(next + next / 8)
    }

    /// Writes until `enough` bytes are ready, or there is another reason to stop.
    pub(super) fn write(&mut self, enough: usize) -> Stopped {
        let most = self.work() + WORK_AT_ONCE;
        let searching = span!("search", berth.candidates = Empty, berth.search.steps = Empty);
        let before = (self.candidates, self.search.steps());
        let stopped = searching.in_scope(|| self.search_on(enough, most));
        searching.record("berth.candidates", spans::count((self.candidates - before.0) as u64));
        let steps = self.search.steps() - before.1;
        searching.record("berth.search.steps", spans::count(steps));
        drop(searching);
        let mut last = match stopped {
            Err(stopped) => return stopped,
            Ok(last) => last,
        };
        let _rendering = span!("render").entered();
        // As in `work`, which cannot be called while the search is borrowed.
        let steps = self.search.steps();
        for provider in self.search.summarised_after(last) {
            let is_full = self.text.len() >= enough;
            if is_full || steps + self.looked_at >= most {
                self.stage = Stage::Summaries(last);
                return if is_full { Stopped::Full } else { Stopped::Paused };
            }
            if last.is_some() {
                self.text.push(",");
            }
            self.looked_at += self.text.summary(&provider, &self.shape, &self.world);
            last = Some(provider.slot());
        }
        self.text.push("}}");
        Stopped::Done
    }

    /// Writes candidates, and determines the providers of the summaries. Returns the provider after
    /// which summaries continue, or why it stopped before them.
    fn search_on(&mut self, enough: usize, most: u64) -> Result<Option<u32>, Stopped> {
        loop {
            if let Stage::Summaries(last) = self.stage {
                return Ok(last);
            }
            if self.text.len() >= enough {
                return Err(Stopped::Full);
            }
            if self.work() >= most {
                return Err(Stopped::Paused);
            }
            if self.stage == Stage::Survey {
                if !self.search.survey() {
                    return Err(Stopped::Paused);
                }
                self.text.push("],\"provider_summaries\":{");
                self.stage = Stage::Summaries(None);
                continue;
            }
            match self.search.next_candidate() {
                Next::Found(candidate) => {
                    if self.candidates > 0 {
                        self.text.push(",");
                    }
                    self.candidates += 1;
                    self.text.candidate(candidate, &self.shape, &self.world);
                }
                Next::Paused => return Err(Stopped::Paused),
                Next::Exhausted => self.stage = Stage::Survey,
            }
        }
    }
}

impl Text {
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

    /// Writes a summary. Returns the number of inventories read.
    fn summary(&mut self, provider: &Provider<'_>, shape: &Shape, world: &World) -> u64 {
        let mut looked_at = 0;
        self.uuid(provider.uuid());
        self.push(":{\"resources\":{");
        let classes = shape.classes.as_ref();
        let shown = |class| classes.is_none_or(|sorted| sorted.binary_search(&class).is_ok());
        let inventories = provider.inventories().inspect(|_| looked_at += 1);
        let inventories = inventories.filter(|row| shown(row.class));
        for (number, row) in inventories.enumerate() {
            if number > 0 {
                self.push(",");
            }
            self.stock(row.class, row.terms.capacity(), row.used, world);
        }
        self.push("}");
        if shape.traits {
            self.push(",\"traits\":");
            self.traits(provider.traits(), world);
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
        looked_at
    }
}

#[cfg(test)]
mod tests;
