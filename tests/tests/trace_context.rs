//! The context of a trace travels from a client through a server to a second one, and each request
//! that is served within it is a span.

use isorb::interceptor::{ClientRequestInfo, ClientRequestInterceptor, Raised, ReplyStatus};
use isorb::{Kind, Orb, Result, Upcall};
use isorb_tests::everyday::{Listener, ListenerRef};
use isorb_trace_context::{SERVICE_CONTEXT, Span, SpanSink, TraceContext, TraceParent};
use std::sync::{Arc, Mutex};

/// What a sink was told.
#[derive(Clone, Debug)]
struct EndedSpan {
    context: TraceParent,
    parent: [u8; 8],
    operation: String,
    status: ReplyStatus,
}

#[derive(Default)]
struct Spans(Mutex<Vec<EndedSpan>>);

impl SpanSink for Spans {
    fn ended(&self, span: &Span<'_>) {
        assert_eq!(span.interface, "IDL:Everyday/Listener:1.0");
        assert!(span.start <= std::time::SystemTime::now());
        let Span { context, parent, operation, status, .. } = *span;
        self.0.lock().unwrap().push(EndedSpan { context, parent, operation: operation.to_owned(), status });
    }
}

impl Spans {
    fn take(&self) -> Vec<EndedSpan> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An ORB with the context.
fn orb(sink: Option<Arc<Spans>>) -> (Orb, TraceContext) {
    let mut context = None;
    let orb = Orb::builder().register(|info| {
        context = Some(TraceContext::register(info, sink.map(|sink| sink as _))?);
        Ok(())
    });
    (orb.build().unwrap(), context.unwrap())
}

/// A servant that records the span it works for, and calls another one.
struct Hop {
    orb: Orb,
    context: TraceContext,
    next: Option<ListenerRef>,
    seen: Mutex<Vec<Option<TraceParent>>>,
}

impl Listener for Hop {
    fn noticed(&self, _: Upcall<'_>, what: &str) -> Result<()> {
        self.seen.lock().unwrap().push(self.context.current(&self.orb));
        match (&self.next, what) {
            (_, "refuse") => Err(Kind::NoPermission.into()),
            (Some(next), _) => next.noticed(what),
            (None, _) => Ok(()),
        }
    }
}

impl Hop {
    fn seen(&self) -> Vec<Option<TraceParent>> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// A server with one servant, which calls `next`, and its reference as text.
fn serve(sink: Option<Arc<Spans>>, next: Option<&str>) -> (Orb, TraceContext, Arc<Hop>, String) {
    let (orb, context) = orb(sink);
    let next = next.map(|url| orb.resolve(url).unwrap());
    let hop = Arc::new(Hop { orb: orb.clone(), context: context.clone(), next, seen: Mutex::default() });
    let poa = orb.root_poa().unwrap();
    poa.manager().activate().unwrap();
    let reference: ListenerRef = poa.activate(hop.clone()).unwrap();
    let text = reference.to_string();
    (orb, context, hop, text)
}

#[test]
fn a_trace_goes_through_two_servers_and_each_request_is_a_span() {
    let spans: [Arc<Spans>; 2] = Default::default();
    let (second, _, last, url) = serve(Some(spans[1].clone()), None);
    let (first, _, middle, url) = serve(Some(spans[0].clone()), Some(&url));
    let (client, context) = orb(None);
    let listener: ListenerRef = client.resolve(&url).unwrap();

    let root = TraceParent::begin();
    context.enter(&client, Some(root));
    listener.noticed("x").unwrap();
    let (told, after) = (spans[0].take(), spans[1].take());
    assert_eq!((told.len(), after.len()), (1, 1));
    assert_eq!((told[0].context.trace, told[0].parent), (root.trace, root.span));
    assert_ne!(told[0].context.span, root.span);
    assert_eq!((after[0].context.trace, after[0].parent), (root.trace, told[0].context.span));
    assert_eq!((&*told[0].operation, told[0].status), ("noticed", ReplyStatus::Successful));
    assert_eq!(middle.seen(), [Some(told[0].context)]);
    assert_eq!(last.seen(), [Some(after[0].context)]);

    assert_eq!(listener.noticed("refuse").unwrap_err().kind, Kind::NoPermission);
    assert_eq!(spans[0].take()[0].status, ReplyStatus::SystemException);
    assert!(spans[1].take().is_empty());

    // Outside of a trace.
    context.enter(&client, None);
    middle.seen();
    listener.noticed("x").unwrap();
    assert_eq!((middle.seen(), last.seen()), (vec![None], vec![None]));
    assert!(spans[0].take().is_empty() && spans[1].take().is_empty());
    for orb in [client, first, second] {
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_trace_that_is_not_recorded_is_passed_on() {
    let spans: Arc<Spans> = Arc::default();
    let (second, _, last, url) = serve(None, None);
    let (first, _, _, url) = serve(Some(spans.clone()), Some(&url));
    let (client, context) = orb(None);
    let listener: ListenerRef = client.resolve(&url).unwrap();
    let root = TraceParent { sampled: false, ..TraceParent::begin() };
    context.enter(&client, Some(root));
    listener.noticed("x").unwrap();
    assert_eq!(last.seen(), [Some(root)]);
    assert!(spans.take().is_empty());
    for orb in [client, first, second] {
        orb.shutdown(true).unwrap();
    }
}

/// Adds what is no context.
struct Liar;

impl ClientRequestInterceptor for Liar {
    fn name(&self) -> &str {
        "liar"
    }
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> std::result::Result<(), Raised> {
        info.add_request_service_context(SERVICE_CONTEXT, b"\0\0\0\0\xff\xff\xff\xffrubbish", false)?;
        Ok(())
    }
}

#[test]
fn a_request_with_a_malformed_context_is_served_and_counted() {
    let spans: Arc<Spans> = Arc::default();
    let (server, context, hop, url) = serve(Some(spans.clone()), None);
    let client = Orb::builder()
        .register(|info| Ok(info.add_client_request_interceptor(Arc::new(Liar))?))
        .build()
        .unwrap();
    let listener: ListenerRef = client.resolve(&url).unwrap();
    (0..3).for_each(|_| listener.noticed("x").unwrap());
    assert_eq!((hop.seen(), context.malformed()), (vec![None; 3], 3));
    assert!(spans.take().is_empty());
    for orb in [client, server] {
        orb.shutdown(true).unwrap();
    }
}
