//! Spans of requests, exported to an OpenTelemetry collector.
//!
//! With [`TraceContext`](isorb_trace_context::TraceContext) a server hands each request of a
//! recorded trace to a [`SpanSink`]. [`Exporter`] is such a sink: it keeps the
//! spans in memory of a fixed size, and a thread of its own sends them to a collector by OTLP
//! (protobuf over HTTP/1.1). The thread that serves the request does not wait for the collector;
//! spans that find no room are counted and dropped.
//!
//! It exports spans only, no metrics and no log records. It speaks no TLS: send to a collector on
//! the same host, or on a network of its own, which forwards over TLS.
//!
//! ```no_run
//! use isorb::Orb;
//! use isorb_otlp::{Exporter, ExporterConfig};
//! use isorb_trace_context::TraceContext;
//!
//! let exporter = Exporter::start(ExporterConfig::new("plant-server"))?;
//! let sink = exporter.sink();
//! let orb = Orb::builder()
//!     .register(|info| {
//!         TraceContext::register(info, Some(sink))?;
//!         Ok(())
//!     })
//!     .build()?;
//! # orb.shutdown(true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Real-time
//! [`SpanSink::ended`] copies at most 320 octets under a PI lock that no thread holds longer than
//! such a copy. It allocates nothing. It makes a system call only if another thread holds the lock,
//! and when the memory is half full, to wake the exporter's thread.

mod client;
mod exporter;
mod queue;
mod span;

pub use exporter::{Exporter, ExporterConfig, ExporterCounts, StartError};

use isorb_trace_context::SpanSink;
