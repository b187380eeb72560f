//! Traces: exports spans of requests to a collector, as OTLP over HTTP.
//!
//! Finished spans wait in a bounded queue, which a thread of the SDK empties in batches. The requests of this thread
//! have their own runtime, so a slow or failing collector does not affect the tasks that handle requests. When
//! the queue is full, further spans are dropped and counted.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::counter;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use opentelemetry_otlp::{
    Protocol, RetryPolicy, SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};
use reqwest::Url;
use tokio::runtime::Runtime;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Registry;
use uuid::Uuid;

use crate::http_client::{self, ExchangeError};
use crate::observe::version::VERSION;

/// The attribute `service.name` of spans.
const SERVICE_NAME: &str = "berth";
/// Maximum number of spans waiting to be sent: about a kilobyte each.
const WAITING_MAX: usize = 8192;
/// Maximum number of spans in one message.
const BATCH_MAX: usize = 512;
/// Maximum time that a span waits for its batch to fill.
const PERIOD: Duration = Duration::from_secs(1);
/// Timeout for a message, including all attempts.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a response of a collector, in bytes.
const ANSWER_MAX: usize = 64 * 1024;
/// Timeout for the last message when the process ends, if the collector works.
const END_MAX: Duration = Duration::from_secs(1);
/// The metric that counts spans: sent, refused by the collector, or dropped because the queue was full.
const SPANS: &str = "berth_trace_spans_total";

/// The recorder of traces.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
    sending: Arc<ExportState>,
}

impl Traces {
    /// Sends the waiting spans, and accepts no more. Waits for at most a second, and not at all if the collector
    /// has not accepted the last message.
    pub(super) fn end(&self) {
        let is_failing = self.sending.is_failing.load(Ordering::Relaxed);
        let most = if is_failing { Duration::ZERO } else { END_MAX };
        if let Err(error) = self.provider.shutdown_with_timeout(most) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Settings of the export of traces.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// URL of the collector, with the path that accepts spans.
    pub endpoint: Url,
    /// Share of requests whose traces are recorded, from 0 to 1.
    pub sample_ratio: f64,
}

/// Starts the export of traces.
///
/// # Errors
/// TLS cannot be set up.
pub(super) fn start(settings: TraceSettings) -> Result<(Traces, SdkTracer), String> {
    let url = settings.endpoint;
    let shown = url.to_string();
    let cannot = |why: &dyn std::fmt::Display| format!("--otlp-endpoint {shown}: {why}");
    let exporter = OtlpExporter::builder()
        .with_http()
        .with_http_client(Client::to(&url).map_err(|why| cannot(&why))?)
        .with_endpoint(url.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(SEND_MAX)
        .with_retry_policy(RetryPolicy::recommended())
        .build()
        .map_err(|error| cannot(&error))?;
    let sending = Arc::new(ExportState::to(url));
    let exporter = ReportingExporter { exporter, sending: Arc::clone(&sending) };
    let batches = BatchConfigBuilder::default()
        // The queue's own bound is never reached: `BoundedProcessor` drops spans before.
        .with_max_queue_size(2 * WAITING_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(PERIOD)
        .build();
    let queue = BatchSpanProcessor::new(exporter, batches);
    let resource = Resource::builder()
        .with_service_name(SERVICE_NAME)
        .with_attributes([
            KeyValue::new("service.version", VERSION),
            KeyValue::new("service.instance.id", Uuid::new_v4().to_string()),
        ])
        .build();
    let share = Sampler::TraceIdRatioBased(settings.sample_ratio);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BoundedProcessor { queue, sending: Arc::clone(&sending) })
        .with_sampler(Sampler::ParentBased(Box::new(share)))
        .with_resource(resource)
        .build();
    let tracer = provider.tracer("berth");
    Ok((Traces { provider, sending }, tracer))
}

/// Returns the layer that makes OpenTelemetry spans of this program's spans.
pub(super) fn layer(tracer: SdkTracer) -> OpenTelemetryLayer<Registry, SdkTracer> {
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        // The parent of a span is the current span of `tracing`.
        .with_context_activation(false)
        // A line about an error does not mean that its span has failed.
        .with_error_events_to_status(false)
}

/// The state of the export.
#[derive(Debug)]
struct ExportState {
    url: Url,
    /// Number of finished spans that are neither sent nor lost.
    waiting: AtomicUsize,
    /// Whether the last message was not accepted.
    is_failing: AtomicBool,
    /// Whether spans are being dropped because too many wait.
    is_full: AtomicBool,
}

impl ExportState {
    fn to(url: Url) -> Self {
        let (waiting, no) = (AtomicUsize::new(0), || AtomicBool::new(false));
        Self { url, waiting, is_failing: no(), is_full: no() }
    }

    /// Takes a place in the queue, if there is one.
    fn take_place(&self) -> bool {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting < WAITING_MAX {
            return true;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        counter!(SPANS, "outcome" => "dropped").increment(1);
        if !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(waiting, "spans are dropped, because the collector is slow or away");
        }
        false
    }

    fn ended(&self, spans: usize, outcome: &OTelSdkResult) {
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let taken = outcome.is_ok();
        let name = if taken { "sent" } else { "failed" };
        counter!(SPANS, "outcome" => name).increment(spans as u64);
        let was_failing = self.is_failing.swap(!taken, Ordering::Relaxed);
        match outcome {
            Err(error) if !was_failing => {
                tracing::warn!(url = %self.url, %error, "traces cannot be sent");
            }
            Ok(()) if was_failing => tracing::info!(url = %self.url, "traces are sent again"),
            Ok(()) | Err(_) => {}
        }
        if taken {
            self.is_full.store(false, Ordering::Relaxed);
        }
    }
}

/// A span processor with a bounded, counted queue.
#[derive(Debug)]
struct BoundedProcessor {
    queue: BatchSpanProcessor,
    sending: Arc<ExportState>,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.queue.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.sending.take_place() {
            self.queue.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, most: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(most)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}

/// An exporter that records its results.
#[derive(Debug)]
struct ReportingExporter {
    exporter: OtlpExporter,
    sending: Arc<ExportState>,
}

impl SpanExporter for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let outcome = self.exporter.export(batch).await;
        self.sending.ended(spans, &outcome);
        outcome
    }

    fn shutdown_with_timeout(&self, most: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(most)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The HTTP client for messages. It belongs to one thread, which waits for each response.
#[derive(Debug)]
struct Client {
    runtime: Runtime,
    client: http_client::HttpClient,
}

impl Client {
    fn to(url: &Url) -> Result<Self, String> {
        let client = http_client::HttpClient::build(|client| {
            let client = client.timeout(SEND_MAX);
            // A minimal container has no authorities, and plain HTTP needs none.
            if url.scheme() == "http" { client.tls_certs_only(Vec::new()) } else { client }
        });
        let client = client.map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self { runtime, client })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let answer = match self.client.exchange_built(request, ANSWER_MAX).await {
            Ok(answer) => answer,
            Err(ExchangeError::TooLarge(_)) => return Err(ResponseBodyTooLarge::new().into()),
            Err(ExchangeError::Failed(failure)) => return Err(failure.into()),
        };
        let mut response = Response::new(Bytes::from(answer.body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

impl HttpClient for Client {
    fn send_bytes<'client, 'response>(
        &'client self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'response>>
    where
        'client: 'response,
        Self: 'response,
    {
        let response = self.runtime.block_on(self.send(request));
        Box::pin(ready(response))
    }
}
