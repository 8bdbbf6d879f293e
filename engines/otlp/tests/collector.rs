//! Spans of requests reach a collector, which speaks OTLP over HTTP on loopback. One that is slow,
//! absent or unwilling holds up no request.

use isorb::interceptor::ReplyStatus;
use isorb::{
    Any, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Kind, Orb, Result,
    Upcall,
};
use isorb_otlp::{Exporter, ExporterConfig, ExporterCounts, StartError};
use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
use isorb_testkit::wait_until;
use isorb_trace_context::{Span, SpanSink, TraceContext, TraceParent};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A collector. Its status is that of its responses; 0 is none at all.
struct Collector {
    address: String,
    status: Arc<AtomicU16>,
    requests: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn start(status: u16) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let status = Arc::new(AtomicU16::new(status));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, taken) = (status.clone(), requests.clone());
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                match answer.load(Ordering::Acquire) {
                    // It is connected and hears nothing.
                    0 => silent.push(stream),
                    status => taken.lock().unwrap().extend(serve(stream, status)),
                }
            }
        });
        Collector { address, status, requests }
    }

    fn config(&self) -> ExporterConfig {
        ExporterConfig {
            endpoint: Some(format!("http://{}/v1/traces", self.address)),
            interval: Duration::from_millis(20),
            timeout: Duration::from_millis(200),
            longest_pause: Duration::from_millis(100),
            ..ExporterConfig::new("plant")
        }
    }

    fn spans(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        let scopes =
            requests.iter().flat_map(|(_, request)| &request.resource_spans).flat_map(|one| &one.scope_spans);
        scopes.map(|scope| scope.spans.len()).sum()
    }
}

/// Reads a request, and answers it. Only one that is taken is returned.
fn serve(mut stream: TcpStream, status: u16) -> Option<(String, ExportTraceServiceRequest)> {
    let mut octets = Vec::new();
    let mut room = [0; 8192];
    let (head, body) = loop {
        let count = stream.read(&mut room).ok().filter(|count| *count > 0)?;
        octets.extend_from_slice(&room[..count]);
        let Some(end) = octets.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(octets[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        if octets.len() >= end + 4 + length {
            break (head, octets[end + 4..][..length].to_vec());
        }
    };
    write!(stream, "HTTP/1.1 {status} Text\r\nContent-Length: 3\r\n\r\nwhy").ok()?;
    (status == 200).then(|| (head, ExportTraceServiceRequest::decode(&*body).unwrap()))
}

/// A span as a served request leaves it.
fn ended(sink: &dyn SpanSink, operation: &str) {
    sink.ended(&Span {
        context: TraceParent::begin(),
        parent: [7; 8],
        interface: "IDL:Plant/Valve:1.0",
        operation,
        start: SystemTime::now(),
        duration: Duration::from_micros(30),
        status: ReplyStatus::Successful,
    });
}

fn text<'v>(attributes: &'v [KeyValue], key: &str) -> &'v str {
    let found =
        attributes.iter().find(|attribute| attribute.key == key).unwrap_or_else(|| panic!("no {key}"));
    match found.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{key} is {other:?}"),
    }
}

struct Valve;

impl DynamicServant for Valve {
    fn invoke(&self, _: Upcall<'_>, operation: &DynamicOperation, _: Vec<Any>) -> Result<DynamicReply> {
        match operation.name() {
            "open" => Ok(DynamicReply::Results(Vec::new())),
            _ => Err(Kind::NoPermission.into()),
        }
    }
}

fn orb(sink: Option<Arc<dyn SpanSink>>) -> (Orb, TraceContext) {
    let mut context = None;
    let orb = Orb::builder().register(|info| {
        context = Some(TraceContext::register(info, sink)?);
        Ok(())
    });
    (orb.build().unwrap(), context.unwrap())
}

#[test]
fn requests_of_a_trace_are_spans_of_the_collector() {
    let collector = Collector::start(200);
    let exporter = Exporter::start(collector.config()).unwrap();
    let (server, _) = orb(Some(exporter.sink()));
    let operations = || ["open", "shut"].map(|name| DynamicOperation::new(name).unwrap());
    let interface = DynamicInterface::new("IDL:Plant/Valve:1.0", &[], operations().into()).unwrap();
    let poa = server.root_poa().unwrap();
    poa.manager().activate().unwrap();
    let id = poa.activate_object(Arc::new(interface).servant(Arc::new(Valve))).unwrap();
    let url = poa.id_to_reference(&id).unwrap().to_string();

    let (client, context) = orb(None);
    let valve = client.string_to_object(&url).unwrap();
    let root = TraceParent::begin();
    context.enter(&client, Some(root));
    let call = |operation: &DynamicOperation| DynamicRequest::new(&valve, operation).invoke();
    let [open, shut] = operations();
    call(&open).unwrap();
    assert_eq!(call(&shut).unwrap_err().kind, Kind::NoPermission);
    wait_until("both spans arrive", || collector.spans() == 2);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();

    let requests = collector.requests.lock().unwrap();
    let (head, request) = &requests[0];
    assert!(
        head.starts_with("post /v1/traces http/1.1") && head.contains("content-type: application/x-protobuf")
    );
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "plant");
    let scopes =
        requests.iter().flat_map(|(_, request)| &request.resource_spans).flat_map(|one| &one.scope_spans);
    let spans: Vec<_> = scopes.flat_map(|scope| &scope.spans).collect();
    for (span, operation, status) in
        [(spans[0], "open", "NO_EXCEPTION"), (spans[1], "shut", "SYSTEM_EXCEPTION")]
    {
        assert_eq!((&span.trace_id[..], &span.parent_span_id[..]), (&root.trace[..], &root.span[..]));
        assert!(span.span_id.len() == 8 && span.span_id[..] != root.span[..]);
        assert_eq!((span.name.as_str(), span.kind), (&*format!("Plant/Valve/{operation}"), 2));
        assert_eq!(text(&span.attributes, "rpc.system"), "corba");
        assert_eq!(text(&span.attributes, "rpc.service"), "IDL:Plant/Valve:1.0");
        assert_eq!(text(&span.attributes, "rpc.method"), operation);
        assert_eq!(text(&span.attributes, "corba.reply_status"), status);
        let is_error = span.status.as_ref().is_some_and(|status| status.code == 2);
        assert_eq!(is_error, status == "SYSTEM_EXCEPTION");
        assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano);
    }
}

/// The thread that serves neither waits nor allocates; what finds no room is counted.
#[test]
fn a_collector_that_does_not_answer_holds_up_nothing() {
    let collector = Collector::start(0);
    // A request to it never ends by itself, so a thread that waited for it would wait for good.
    let config = ExporterConfig { capacity: 100, timeout: Duration::from_secs(2), ..collector.config() };
    let exporter = Exporter::start(config).unwrap();
    let sink = exporter.sink();
    let allocated = allocations_during(|| (0..10_000).for_each(|_| ended(&*sink, "open")));
    assert_eq!(allocated, 0, "allocations of the thread that serves");
    let counts = exporter.counts();
    assert_eq!(counts.exported + counts.refused, 0);
    assert!(counts.dropped > 0 && counts.waiting <= 100 + 512, "{counts:?}");

    // It comes back: what waits is sent, and nothing twice.
    collector.status.store(200, Ordering::Release);
    wait_until("what waited is exported", || {
        let ExporterCounts { exported, dropped, refused, waiting } = exporter.counts();
        waiting == 0 && exported + dropped == 10_000 && refused == 0
    });
    assert_eq!(collector.spans() as u64, exporter.counts().exported);
}

#[test]
fn spans_wait_for_a_collector_that_is_unavailable_and_not_for_one_that_refuses() {
    let collector = Collector::start(503);
    let exporter = Exporter::start(collector.config()).unwrap();
    let sink = exporter.sink();
    ended(&*sink, "open");
    wait_until("it waits", || exporter.counts().waiting == 1);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(exporter.counts(), ExporterCounts { waiting: 1, ..ExporterCounts::default() });
    collector.status.store(200, Ordering::Release);
    wait_until("it is exported", || exporter.counts().exported == 1);

    collector.status.store(400, Ordering::Release);
    ended(&*sink, "shut");
    wait_until("it is refused", || exporter.counts().refused == 1);
    collector.status.store(200, Ordering::Release);
    ended(&*sink, "open");
    wait_until("the next is exported", || exporter.counts().exported == 2);
    assert_eq!(collector.spans(), 2);
}

#[test]
fn dropping_the_exporter_sends_what_waits() {
    let collector = Collector::start(200);
    let config = ExporterConfig { interval: Duration::from_secs(3600), ..collector.config() };
    let exporter = Exporter::start(config).unwrap();
    let sink = exporter.sink();
    // Longer names than are kept, cut between characters.
    (0..700).for_each(|_| ended(&*sink, &"ä".repeat(40)));
    drop(exporter);
    assert_eq!(collector.spans(), 700);
    let requests = collector.requests.lock().unwrap();
    let span = &requests[0].1.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(span.name, format!("Plant/Valve/{}", "ä".repeat(32)));
    // The sink may outlive it.
    ended(&*sink, "open");
}

#[test]
fn wrong_endpoints_are_refused_with_the_reason() {
    let start = |endpoint: &str| {
        let endpoint = Some(endpoint.to_owned());
        Exporter::start(ExporterConfig { endpoint, ..ExporterConfig::new("plant") }).map(drop)
    };
    for (endpoint, reason) in [
        ("https://collector:4318", "TLS is not supported"),
        ("collector:4318", "expected http://HOST:PORT"),
        ("http://", "expected http://HOST:PORT"),
    ] {
        let error = start(endpoint).unwrap_err();
        assert!(matches!(error, StartError::Endpoint(_)) && error.to_string().contains(reason), "{error}");
    }
}
