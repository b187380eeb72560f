//! Filters of spans and events, for log lines and for traces. Both decide once for each place in the code, as far
//! as `--log` does.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter};

use crate::observe::spans;

/// Selects what `--log` allows, without spans.
pub(super) struct LineFilter<F>(pub(super) F);

fn once(is_enabled: bool) -> Interest {
    if is_enabled { Interest::always() } else { Interest::never() }
}

impl<S, F: Filter<S>> Filter<S> for LineFilter<F> {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        metadata.is_event() && self.0.enabled(metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() { self.0.callsite_enabled(metadata) } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }
}

/// Selects the spans of traces, and events within them above the level of debugging.
pub(super) struct TraceFilter;

fn is_of_traces(metadata: &Metadata<'_>) -> bool {
    if metadata.is_span() {
        metadata.target() == spans::TARGET
    } else {
        *metadata.level() <= LevelFilter::INFO && metadata.target().starts_with("berth")
    }
}

impl<S> Filter<S> for TraceFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        is_of_traces(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        once(is_of_traces(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }
}
