//! The thread that sends spans to the collector.

use crate::SpanSink;
use crate::client::{Client, address_of};
use crate::queue::{Queue, Record};
use crate::span::exported;
use isorb_rt::log;
use isorb_rt::sched::{Thread, ThreadSpec};
use isorb_rt::time::Deadline;
use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const TARGET: &str = "isorb::otlp";

/// Where spans go, and how many may wait.
#[derive(Clone, Debug)]
pub struct ExporterConfig {
    /// The attribute `service.name` of all spans.
    pub service: String,
    /// The collector's URL for traces, as `http://127.0.0.1:4318/v1/traces`. `None`: the variables
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`, or that URL.
    pub endpoint: Option<String>,
    /// More headers of each request, such as a token of the collector.
    pub headers: HashMap<String, String>,
    /// The spans that may wait, 320 octets each. When half of them do, they are sent at once.
    pub capacity: usize,
    /// The pause between two requests to the collector otherwise.
    pub interval: Duration,
    /// The longest time for one request.
    pub timeout: Duration,
    /// The longest pause after requests that failed. Pauses double from `interval` on.
    pub longest_pause: Duration,
}

impl ExporterConfig {
    /// A collector on this host, 2,048 spans, a request every five seconds: the defaults of
    /// OpenTelemetry.
    #[must_use]
    pub fn new(service: impl Into<String>) -> ExporterConfig {
        ExporterConfig {
            service: service.into(),
            endpoint: None,
            headers: HashMap::new(),
            capacity: 2048,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// The most spans of one request.
const BATCH: usize = 512;

/// What became of spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExporterCounts {
    /// A collector has taken them.
    pub exported: u64,
    /// They found no room, because the collector was slower than the server.
    pub dropped: u64,
    /// The collector refused them.
    pub refused: u64,
    /// They wait, or are on their way.
    pub waiting: u64,
}

/// Why an exporter did not start.
#[derive(Debug)]
pub enum StartError {
    /// The URL is not one of a collector, with the reason.
    Endpoint(String),
    /// The thread did not start.
    Thread(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Endpoint(why) => write!(f, "the collector's endpoint: {why}"),
            StartError::Thread(error) => write!(f, "the exporter's thread does not start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Sends spans to a collector. Dropping it sends what waits, in one attempt of at most `timeout`
/// for each 512 spans, and ends the thread.
pub struct Exporter {
    shared: Arc<Shared>,
    thread: Option<Thread<()>>,
}

struct Shared {
    queue: Arc<Queue>,
    exported: AtomicU64,
    refused: AtomicU64,
    /// Spans of the request under way.
    under_way: AtomicU64,
    stop: AtomicBool,
}

impl Exporter {
    /// Starts the thread `isorb-otlp`, without a real-time class. The collector need not be there
    /// yet.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: ExporterConfig) -> Result<Exporter, StartError> {
        let client = Client::new(config.timeout);
        let mut builder = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_headers(config.headers.clone())
            .with_timeout(config.timeout)
            .with_retry_policy(RetryPolicy::disabled());
        if let Some(endpoint) = &config.endpoint {
            let uri: http::Uri = endpoint.parse().map_err(|error| {
                StartError::Endpoint(format!("{endpoint}: {error}; expected http://HOST:PORT/PATH"))
            })?;
            address_of(&uri).map_err(StartError::Endpoint)?;
            builder = builder.with_endpoint(endpoint);
        }
        let mut exporter = builder.build().map_err(|error| StartError::Endpoint(error.to_string()))?;
        exporter.set_resource(&Resource::builder().with_service_name(config.service.clone()).build());
        let shared = Arc::new(Shared {
            queue: Arc::new(Queue::new(config.capacity)),
            exported: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let sender = Sender {
            shared: shared.clone(),
            exporter,
            client,
            scope: InstrumentationScope::builder("isorb").with_version(env!("CARGO_PKG_VERSION")).build(),
            config,
            failures: 0,
            batch: Vec::with_capacity(BATCH),
        };
        let spawned = ThreadSpec::new("isorb-otlp").spawn(move || sender.run());
        let thread = spawned.map_err(|error| StartError::Thread(std::io::Error::other(error)))?;
        Ok(Exporter { shared, thread: Some(thread) })
    }

    /// The sink for [`TraceContext::register`](isorb_trace_context::TraceContext::register).
    #[must_use]
    pub fn sink(&self) -> Arc<dyn SpanSink> {
        self.shared.queue.clone()
    }

    /// What became of the spans so far.
    #[must_use]
    pub fn counts(&self) -> ExporterCounts {
        let shared = &self.shared;
        ExporterCounts {
            exported: shared.exported.load(Ordering::Relaxed),
            dropped: shared.queue.dropped(),
            refused: shared.refused.load(Ordering::Relaxed),
            waiting: shared.queue.len() as u64 + shared.under_way.load(Ordering::Relaxed),
        }
    }

    /// Sends what waits now, without the pause.
    pub fn flush(&self) {
        self.shared.queue.wake.unpark();
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.queue.wake.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The thread's part.
struct Sender {
    shared: Arc<Shared>,
    exporter: opentelemetry_otlp::SpanExporter,
    client: Client,
    scope: InstrumentationScope,
    config: ExporterConfig,
    /// Requests that failed, since the last one that did not.
    failures: u32,
    /// The spans of the next request.
    batch: Vec<Record>,
}

impl Sender {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.shared.queue.wake.park_until(Deadline::after(self.pause()));
            self.send_all();
        }
        // The last attempt: spans of a request that failed before are in it.
        self.send_all();
    }

    fn pause(&self) -> Duration {
        let longer = self.config.interval.saturating_mul(1 << self.failures.min(16));
        longer.min(self.config.longest_pause.max(self.config.interval))
    }

    /// Sends requests until nothing waits or one fails.
    fn send_all(&mut self) {
        loop {
            while self.batch.len() < BATCH
                && let Some(record) = self.shared.queue.pop()
            {
                self.batch.push(record);
            }
            self.shared.under_way.store(self.batch.len() as u64, Ordering::Relaxed);
            if self.batch.is_empty() || !self.send() {
                return;
            }
        }
    }

    /// Sends one request. Returns false if its spans must be sent again later.
    fn send(&mut self) -> bool {
        let spans = self.batch.iter().map(|record| exported(record, &self.scope)).collect();
        let count = self.batch.len() as u64;
        let result = futures_executor::block_on(self.exporter.export(spans));
        let outcome = self.client.last();
        let (is_done, counter) = match &result {
            Ok(()) => (true, &self.shared.exported),
            Err(_) => (!outcome.may_retry(), &self.shared.refused),
        };
        if let Err(error) = result {
            if self.failures == 0 {
                let fate = if is_done { "they are lost" } else { "they are sent again" };
                let (status, detail) = (outcome.status, outcome.detail);
                log::warn(
                    TARGET,
                    format_args!(
                        "the collector has not taken {count} spans, {fate}: {error}, status {status}: {detail}"
                    ),
                );
            }
            self.failures = self.failures.saturating_add(1);
        } else if std::mem::take(&mut self.failures) > 0 {
            let dropped = self.shared.queue.dropped();
            log::info(
                TARGET,
                format_args!("the collector takes spans again; {dropped} found no room so far"),
            );
        }
        if is_done {
            counter.fetch_add(count, Ordering::Relaxed);
            self.batch.clear();
            self.shared.under_way.store(0, Ordering::Relaxed);
        }
        is_done
    }
}
