//! The trace context of the W3C in requests, and a span for each request that is served.
//!
//! A program that serves or makes requests on behalf of others' requests passes the context on:
//! `traceparent` travels in a service context, from the thread of the caller to that of the
//! servant, and from there with the servant's own calls. With a [`SpanSink`] each request that is
//! served within a recorded trace is a [`Span`], which the sink hands to a tracing system.
//!
//! ```
//! use isorb::Orb;
//! use isorb_trace_context::{TraceContext, TraceParent};
//!
//! let mut context = None;
//! let orb = Orb::builder()
//!     .register(|info| {
//!         context = Some(TraceContext::register(info, None)?);
//!         Ok(())
//!     })
//!     .build()?;
//! let context = context.unwrap();
//! // Calls of this thread belong to a new trace from here on.
//! context.enter(&orb, Some(TraceParent::begin()));
//! assert!(context.current(&orb).is_some());
//! # orb.shutdown(true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The service context
//!
//! Its id is [`SERVICE_CONTEXT`]. Its data is an encapsulation of one string, the `traceparent`.
//! `tracestate` is not carried.
//!
//! # Real-time
//! Without [`TraceContext::register`] nothing of this exists. With it, a call outside of a trace
//! and a request without the context look at one slot and at the list of contexts. Within a trace a
//! call formats 55 characters and adds them to its message; with a sink a request that is served
//! reads random octets of the kernel and the clocks. Both allocate their slots' values.
#![forbid(unsafe_code)]

mod parent;
mod wire;

pub use parent::{Malformed, TraceParent};
pub use wire::SERVICE_CONTEXT;

use isorb::interceptor::{
    ClientRequestInfo, ClientRequestInterceptor, InitError, OrbInitInfo, Raised, ReplyStatus,
    ServerRequestInfo, ServerRequestInterceptor, SlotId,
};
use isorb::{Any, Kind, Orb, Result};
use isorb_rt::log;
use isorb_rt::time::now_ns;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const TARGET: &str = "isorb::trace-context";

/// A request that was served within a recorded trace.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// The trace, and the span of this request.
    pub context: TraceParent,
    /// The span of the caller.
    pub parent: [u8; 8],
    /// The repository id of the target's interface; empty if the target was not found.
    pub interface: &'a str,
    /// The operation's name on the wire.
    pub operation: &'a str,
    /// When the request was taken up, by the clock of the day as it is at the end.
    pub start: SystemTime,
    /// How long it took. Steps of the clock of the day do not change it.
    pub duration: Duration,
    /// How it ended.
    pub status: ReplyStatus,
}

/// Takes spans.
pub trait SpanSink: Send + Sync {
    /// A request has ended.
    ///
    /// # Real-time
    /// Runs on the thread that serves the request, before the reply is sent. It must not block.
    fn ended(&self, span: &Span<'_>);
}

/// The context of one ORB. Cheap to clone.
#[derive(Clone)]
pub struct TraceContext(Arc<Inner>);

struct Inner {
    /// The current span, as [`TraceParent::to_octets`].
    current: SlotId,
    /// The span of the caller, and when its request was taken up.
    served: SlotId,
    sink: Option<Arc<dyn SpanSink>>,
    malformed: AtomicU64,
}

impl TraceContext {
    /// Registers the interceptors of client and server with an ORB that is being built.
    ///
    /// # Errors
    /// [`InitError::DuplicateName`], if the ORB has them already.
    pub fn register(
        info: &mut OrbInitInfo,
        sink: Option<Arc<dyn SpanSink>>,
    ) -> std::result::Result<TraceContext, InitError> {
        let (current, served) = (info.allocate_slot_id(), info.allocate_slot_id());
        let context = TraceContext(Arc::new(Inner { current, served, sink, malformed: AtomicU64::new(0) }));
        info.add_client_request_interceptor(Arc::new(context.clone()))?;
        info.add_server_request_interceptor(Arc::new(context.clone()))?;
        Ok(context)
    }

    /// The span that this thread works for: of the request that it serves, or the one that it
    /// entered.
    #[must_use]
    pub fn current(&self, orb: &Orb) -> Option<TraceParent> {
        orb.pi_current().slot(self.0.current).ok().and_then(|value| read(&value))
    }

    /// Calls of this thread belong to this span from now on; with `None` to no trace.
    pub fn enter(&self, orb: &Orb, span: Option<TraceParent>) {
        let value = span.map_or_else(|| Some(Any::default()), |span| Any::new(&span.to_octets()).ok());
        if let Some(value) = value {
            // The slot is this ORB's.
            let _ = orb.pi_current().set_slot(self.0.current, value);
        }
    }

    /// Requests with a context that is no `traceparent`. They are served, outside of a trace.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.0.malformed.load(Ordering::Relaxed)
    }

    fn count_malformed(&self, operation: &str) {
        if self.0.malformed.fetch_add(1, Ordering::Relaxed) == 0 {
            log::warn(
                TARGET,
                format_args!(
                    "a request {operation} has a trace context that is no traceparent; it is served outside of a \
                     trace, and later ones are counted only"
                ),
            );
        }
    }

    /// Hands the span of a request that has ended to the sink.
    fn ended(&self, info: &ServerRequestInfo<'_>) {
        let Some(sink) = &self.0.sink else { return };
        let served = info.slot(self.0.served).ok().and_then(|value| value.get::<[u64; 2]>());
        let context = info.slot(self.0.current).ok().and_then(|value| read(&value));
        let (Some([parent, began]), Some(context)) = (served, context) else { return };
        let duration = Duration::from_nanos(now_ns().saturating_sub(began));
        let now = SystemTime::now();
        sink.ended(&Span {
            context,
            parent: parent.to_be_bytes(),
            interface: info.target_most_derived_interface().unwrap_or_default(),
            operation: info.operation(),
            start: now.checked_sub(duration).unwrap_or(now),
            duration,
            status: info.reply_status().unwrap_or(ReplyStatus::Unknown),
        });
    }
}

fn read(value: &Any) -> Option<TraceParent> {
    value.get().map(|octets| TraceParent::from_octets(&octets))
}

impl ClientRequestInterceptor for TraceContext {
    fn name(&self) -> &str {
        TARGET
    }

    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> std::result::Result<(), Raised> {
        if let Some(span) = read(&info.slot(self.0.current)?) {
            info.add_request_service_context(SERVICE_CONTEXT, &wire::write(&span), true)?;
        }
        Ok(())
    }
}

impl ServerRequestInterceptor for TraceContext {
    fn name(&self) -> &str {
        TARGET
    }

    fn receive_request_service_contexts(
        &self,
        info: &mut ServerRequestInfo<'_>,
    ) -> std::result::Result<(), Raised> {
        let parent = match info.request_service_context(SERVICE_CONTEXT).map(wire::read) {
            Err(_) => return Ok(()),
            Ok(Ok(parent)) => parent,
            Ok(Err(_)) => {
                self.count_malformed(info.operation());
                return Ok(());
            }
        };
        let is_recorded = parent.sampled && self.0.sink.is_some();
        let span = if is_recorded { parent.child() } else { parent };
        let no_memory = |_| Kind::NoMemory;
        info.set_slot(self.0.current, Any::new(&span.to_octets()).map_err(no_memory)?)?;
        if is_recorded {
            let served = [u64::from_be_bytes(parent.span), now_ns()];
            info.set_slot(self.0.served, Any::new(&served).map_err(no_memory)?)?;
        }
        Ok(())
    }

    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        self.ended(info);
        Ok(())
    }

    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> std::result::Result<(), Raised> {
        self.ended(info);
        Ok(())
    }

    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> std::result::Result<(), Raised> {
        self.ended(info);
        Ok(())
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("sink", &self.0.sink.is_some())
            .field("malformed", &self.malformed())
            .finish_non_exhaustive()
    }
}
