//! A span as OpenTelemetry names it.

use crate::queue::Record;
use isorb::interceptor::ReplyStatus;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// Follows the semantic conventions for remote procedure calls: the span is named
/// `INTERFACE/OPERATION`.
pub fn exported(record: &Record, scope: &InstrumentationScope) -> SpanData {
    let flags = if record.context.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let status = name_of(record.status);
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(record.context.trace),
            SpanId::from_bytes(record.context.span),
            flags,
            false,
            TraceState::default(),
        ),
        parent_span_id: SpanId::from_bytes(record.parent),
        parent_span_is_remote: true,
        span_kind: SpanKind::Server,
        name: format!("{}/{}", scoped_name(record.interface()), record.operation()).into(),
        start_time: record.start,
        end_time: record.start.checked_add(record.duration).unwrap_or(record.start),
        attributes: vec![
            KeyValue::new("rpc.system", "corba"),
            KeyValue::new("rpc.service", record.interface().to_owned()),
            KeyValue::new("rpc.method", record.operation().to_owned()),
            KeyValue::new("corba.reply_status", status),
        ],
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: match record.status {
            ReplyStatus::SystemException => Status::error("the request ended with a system exception"),
            _ => Status::Unset,
        },
        instrumentation_scope: scope.clone(),
    }
}

/// The scoped name in a repository id: `Plant/Valve` of `IDL:Plant/Valve:1.0`. Another format stays
/// as it is.
fn scoped_name(id: &str) -> &str {
    let name = id.strip_prefix("IDL:").and_then(|rest| rest.rsplit_once(':')).map_or(id, |(name, _)| name);
    if name.is_empty() { "unknown" } else { name }
}

/// As GIOP names the status.
fn name_of(status: ReplyStatus) -> &'static str {
    match status {
        ReplyStatus::Successful => "NO_EXCEPTION",
        ReplyStatus::UserException => "USER_EXCEPTION",
        ReplyStatus::SystemException => "SYSTEM_EXCEPTION",
        ReplyStatus::LocationForward => "LOCATION_FORWARD",
        ReplyStatus::TransportRetry => "TRANSPORT_RETRY",
        ReplyStatus::Unknown => "UNKNOWN",
    }
}
