//! The trace context of the W3C's recommendation "Trace Context": the headers `traceparent` and `tracestate`,
//! which identify the trace and the caller's span that a request belongs to.
//!
//! Without `--otlp-endpoint`, Berth records no spans, and passes the context on unchanged. With it, the context
//! that is passed on names Berth's own span.

use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header with the trace and the span.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with further data of tracing systems, which is passed on unchanged.
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Maximum size of a `tracestate` that is passed on, in bytes. Systems must support 512.
const STATE_MAX: usize = 4096;

/// The trace and the span that a request belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceContext(SpanContext);

impl TraceContext {
    /// Reads the headers of a request; `None` if they are missing or invalid.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
        let (trace, span, flags) = parse(parent.to_str().ok()?)?;
        let context = SpanContext::new(trace, span, flags, true, state(headers));
        context.is_valid().then_some(Self(context))
    }

    /// Returns the id of the trace.
    pub(crate) fn trace_id(&self) -> TraceId {
        self.0.trace_id()
    }

    /// Returns the context as the parent of a span.
    pub(crate) fn as_parent(&self) -> Context {
        Context::new().with_remote_span_context(self.0.clone())
    }

    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let Self(context) = self;
        let (trace, span) = (context.trace_id(), context.span_id());
        let sampled = context.trace_flags() & TraceFlags::SAMPLED;
        let parent = format!("00-{trace}-{span}-{sampled:02x}");
        let values = [(TRACEPARENT, parent), (TRACESTATE, context.trace_state().header())];
        for (name, value) in values {
            if let (false, Ok(value)) = (value.is_empty(), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
    }
}

impl TraceContext {
    /// The context of the current span, if it has one.
    pub(crate) fn of_current_span() -> Option<Self> {
        let context = Span::current().context().span().span_context().clone();
        context.is_valid().then_some(Self(context))
    }
}

/// Parses version, trace, span and flags of a `traceparent`. Later versions may add to the end.
fn parse(parent: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let mut parts = parent.trim_matches([' ', '\t']).split('-');
    let mut next = |length: usize| parts.next().filter(|part| is_hex(part, length));
    let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    Some((TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, flags))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the `tracestate`, which may be spread over several headers; empty if it is invalid.
fn state(headers: &HeaderMap) -> TraceState {
    let mut state = String::new();
    for part in headers.get_all(TRACESTATE) {
        let Ok(part) = part.to_str() else { return TraceState::NONE };
        if state.len() + part.len() > STATE_MAX {
            return TraceState::NONE;
        }
        let members = part.split(',').map(str::trim).filter(|member| !member.is_empty());
        for member in members {
            state.extend([if state.is_empty() { "" } else { "," }, member]);
        }
    }
    match TraceState::from_str(&state) {
        Ok(state) => state,
        // The trace continues without it, as the recommendation says.
        Err(_) => TraceState::NONE,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::TraceContext;
    use crate::observe::request_context::{RequestContext, RequestScope, pass_trace_on};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[tokio::test]
    async fn a_context_is_passed_on_as_it_came() {
        let came = headers(&[
            ("traceparent", PARENT),
            ("tracestate", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE"),
            ("tracestate", "third=1"),
        ]);
        let context = TraceContext::read(&came).unwrap();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        let request = RequestContext { trace: Some(context), ..RequestContext::default() };
        let passed = RequestScope::of(request, tracing::Span::none()).during(async {
            let elsewhere = tokio::spawn(RequestScope::current().during(async {
                let mut passed = HeaderMap::new();
                pass_trace_on(&mut passed);
                passed
            }));
            elsewhere.await.unwrap()
        });
        let passed = passed.await;
        assert_eq!(passed["traceparent"], PARENT);
        assert_eq!(passed["tracestate"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,third=1");
        let mut nothing = HeaderMap::new();
        pass_trace_on(&mut nothing);
        assert!(nothing.is_empty());
    }

    #[test]
    fn only_the_flag_sampled_is_known_and_later_versions_are_read() {
        for (parent, sampled) in [
            (PARENT.to_owned(), true),
            (PARENT.replace("-01", "-00"), false),
            (PARENT.replace("-01", "-fe"), false),
            (PARENT.replace("-01", "-03"), true),
            (format!("01{}-more", &PARENT[2..]), true),
        ] {
            let context = TraceContext::read(&headers(&[("traceparent", &parent)])).unwrap();
            assert_eq!(context.0.is_sampled(), sampled, "{parent}");
        }
    }

    #[test]
    fn an_invalid_header_is_ignored() {
        for parent in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "+0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::read(&headers(&[("traceparent", parent)])), None, "{parent}");
        }
        let twice = headers(&[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert_eq!(TraceContext::read(&twice), None);
        let state = headers(&[("traceparent", PARENT), ("tracestate", "not a state")]);
        assert!(TraceContext::read(&state).unwrap().0.trace_state().header().is_empty());
    }
}
