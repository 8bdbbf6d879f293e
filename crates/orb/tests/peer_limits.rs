//! What one client may have at a server over all of its connections: requests, and octets of
//! messages. A greedy client is refused, and others do not notice.

mod common;

use common::raw::{Answer, Raw};
use common::rt::{Witness, arc, lane, poa, server_with};
use common::{Echo, EchoRef, Parrot};
use isorb::generated::*;
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{RequestBuffering, ThreadpoolOptions};
use isorb::{Concurrency, Config, Deferred, Orb, Reference};
use isorb_giop::exception::minor;
use isorb_giop::message::Response;
use isorb_giop::{Header, MessageKind, context};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};

const CALLS: usize = 3;
const OCTETS: usize = 64 << 10;

fn config() -> Config {
    Config { max_peer_calls: CALLS, max_peer_octets: OCTETS, ..Config::default() }
}

/// A server of each kind: a thread for each connection, a lane, a lane of a thread pool that
/// buffers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connection,
    Lane,
    Pool,
}

const KINDS: [Kind; 3] = [Kind::Connection, Kind::Lane, Kind::Pool];
/// Requests that a lane of the pool buffers.
const BUFFERED: usize = 5;

fn serve<S: Echo>(kind: Kind, servant: Arc<S>, config: Config) -> (Orb, EchoRef) {
    let concurrency = if kind == Kind::Lane { Concurrency::Lane } else { Concurrency::Connection };
    let orb = server_with(Config { concurrency, lane_threads: 8, ..config });
    let object = match kind {
        Kind::Pool => {
            let buffering = Some(RequestBuffering {
                max_buffered_requests: BUFFERED as u32,
                max_request_buffer_size: 1 << 20,
            });
            let options = ThreadpoolOptions { buffering, ..ThreadpoolOptions::default() };
            let pool = orb.rt().create_threadpool_with_lanes(&[lane(0, 1)], &options).unwrap();
            let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 0);
            poa(&orb, "pool", policies).activate(servant).unwrap()
        }
        _ => orb.root_poa().unwrap().activate(servant).unwrap(),
    };
    (orb, object)
}

/// A request that blocks in the servant.
fn sleep(raw: &Raw) -> Vec<u8> {
    raw.request(Response::Target, "sleep", &[])
}

/// The detail of a refusal.
fn refusal(answer: &Answer) -> String {
    assert_eq!(answer.exception(), ("IDL:omg.org/CORBA/IMP_LIMIT:1.0".into(), minor::IMP_LIMIT_PEER));
    let detail = answer.contexts.iter().find(|(id, _)| *id == context::EXCEPTION_DETAIL_MESSAGE);
    context::read_exception_detail(&detail.expect("a detail").1).unwrap()
}

fn await_nothing_held(orb: &Orb) {
    wait_until("the client holds nothing", || {
        let counts = orb.connection_counts();
        (counts.peer_calls, counts.peer_octets) == (0, 0)
    });
}

#[test]
fn so_few_octets_that_no_request_fits_are_refused_as_a_setting() {
    let refused = Orb::with_config(Config { max_peer_octets: 10, ..Config::default() }).unwrap_err();
    let detail = refused.detail.unwrap();
    assert!(detail.contains("max_peer_octets is 0") && detail.contains("1024"), "{detail}");
}

#[test]
fn a_greedy_client_leaves_room_for_another() {
    for kind in KINDS {
        let witness = arc::<Witness>();
        let (orb, object) = serve(kind, witness.clone(), config());
        let mut greedy: Vec<Raw> = (0..12).map(|_| Raw::connect(object.object())).collect();
        let (admitted, refused) = greedy.split_at_mut(CALLS);
        for raw in &mut *admitted {
            raw.write(&sleep(raw));
        }
        wait_until("they are there", || orb.connection_counts().peer_calls == CALLS as u64);
        for raw in &mut *refused {
            raw.write(&sleep(raw));
            let detail = refusal(&raw.receive());
            assert!(
                detail.contains("client 127.0.0.1 has as many calls") && detail.contains(": 3 ("),
                "{detail}"
            );
            assert!(detail.contains("-ORBMaxPeerCalls"), "{detail}");
        }
        // Another client is served, in the pool behind those that were admitted.
        let mut other = Raw::connect_from(object.object(), [127, 0, 0, 2]);
        other.write(&sleep(&other));
        wait_until("the other is there", || orb.connection_counts().peer_calls == CALLS as u64 + 1);
        witness.open(CALLS as u32 + 1);
        assert_eq!(other.receive().status, 0, "{kind:?}");
        admitted.iter_mut().for_each(|raw| assert_eq!(raw.receive().status, 0));
        await_nothing_held(&orb);
        // The connections live on.
        refused.iter_mut().for_each(|raw| assert_eq!(raw.call("ping", &[]).status, 0));
        assert_eq!(orb.connection_counts().peer_refused, 9, "{kind:?}");
        orb.shutdown(true).unwrap();
    }
}

const UTF_8: context::CodeSets = context::CodeSets { char_data: 0x0501_0001, wchar_data: 0x0001_0109 };

/// Whether text of the connection is UTF-8: the octet 0xfc alone is none, and a letter otherwise.
fn sends_utf_8(raw: &mut Raw) -> bool {
    raw.write(&raw.request(Response::Target, "text", b"\xfc\0"));
    raw.receive().status == 2
}

/// Clients send the code sets of a connection with its first request only.
#[test]
fn a_refused_request_sets_the_code_sets_of_its_connection() {
    for kind in KINDS {
        let witness = arc::<Witness>();
        let (orb, object) = serve(kind, witness.clone(), Config { max_peer_calls: 1, ..config() });
        let mut busy = Raw::connect(object.object());
        busy.write(&sleep(&busy));
        witness.await_inside(1);
        let mut raw = Raw::connect(object.object());
        raw.send("ping", &[(context::CODE_SETS, &UTF_8.write())]);
        refusal(&raw.receive());
        witness.open(1);
        assert_eq!(busy.receive().status, 0);
        await_nothing_held(&orb);
        assert!(sends_utf_8(&mut raw), "{kind:?}");
        orb.shutdown(true).unwrap();
    }
}

/// Without the limit, the client above takes the whole buffer.
#[test]
fn without_a_limit_a_greedy_client_fills_the_buffer_of_a_lane() {
    let witness = arc::<Witness>();
    let (orb, object) = serve(Kind::Pool, witness.clone(), Config::default());
    let mut greedy: Vec<Raw> = (0..1 + BUFFERED).map(|_| Raw::connect(object.object())).collect();
    for raw in &mut greedy {
        raw.write(&sleep(raw));
        wait_until("it was read", || !raw.waits_at_server());
        witness.await_inside(1);
    }
    let mut other = Raw::connect_from(object.object(), [127, 0, 0, 2]);
    other.send("ping", &[(context::CODE_SETS, &UTF_8.write())]);
    let (id, _) = other.receive().exception();
    assert_eq!(id, "IDL:omg.org/CORBA/TRANSIENT:1.0");
    witness.open(1 + BUFFERED as u32);
    greedy.iter_mut().for_each(|raw| assert_eq!(raw.receive().status, 0));
    assert!(sends_utf_8(&mut other));
    assert_eq!(orb.connection_counts().peer_calls, 0, "nothing is counted");
    orb.shutdown(true).unwrap();
}

#[test]
fn oneways_above_the_limit_are_counted_and_not_run() {
    for kind in KINDS {
        let witness = arc::<Witness>();
        let (orb, object) = serve(kind, witness.clone(), Config { max_peer_calls: 1, ..config() });
        let mut busy = Raw::connect(object.object());
        busy.write(&sleep(&busy));
        witness.await_inside(1);
        let mut raw = Raw::connect(object.object());
        let feed = raw.request(Response::None, "feed", b"oneway");
        (0..5).for_each(|_| raw.write(&feed));
        wait_until("they were refused", || orb.connection_counts().peer_refused == 5);
        witness.open(1);
        assert_eq!(busy.receive().status, 0);
        await_nothing_held(&orb);
        assert_eq!(raw.call("ping", &[]).status, 0, "{kind:?}: the first answer on this connection");
        assert_eq!(witness.take().len(), 2, "{kind:?}: the sleep and the ping");
        orb.shutdown(true).unwrap();
    }
}

/// A full lane refuses requests that their client may have. They count until they are refused.
#[test]
fn a_request_that_finds_the_buffer_of_a_lane_full_counts_no_more() {
    const PLACES: usize = 1 + BUFFERED;
    let witness = arc::<Witness>();
    let (orb, object) = serve(Kind::Pool, witness.clone(), Config { max_peer_calls: PLACES + 2, ..config() });
    let mut clients: Vec<Raw> = (0..PLACES).map(|_| Raw::connect(object.object())).collect();
    for raw in &mut clients {
        raw.write(&sleep(raw));
    }
    wait_until("they run or wait", || orb.connection_counts().peer_calls == PLACES as u64);
    let mut more = Raw::connect(object.object());
    let refused = [(); 5].map(|()| {
        // A oneway is not answered, and the request behind it is.
        more.write(&more.request(Response::None, "feed", b"oneway"));
        more.write(&sleep(&more));
        more.receive().exception().0
    });
    witness.open(PLACES as u32);
    assert_eq!(refused, ["IDL:omg.org/CORBA/TRANSIENT:1.0"; 5], "for want of a place alone");
    clients.iter_mut().for_each(|raw| assert_eq!(raw.receive().status, 0));
    await_nothing_held(&orb);
    assert_eq!(orb.connection_counts().peer_refused, 0, "none was above the limit of its client");
    orb.shutdown(true).unwrap();
}

/// Defers the reply to each `sleep`.
#[derive(Default)]
struct Later(Mutex<Vec<Deferred>>);

impl Echo for Later {
    fn sleep(&self, cx: Upcall<'_>, _: u32) -> Result<u32> {
        self.0.lock().unwrap().push(cx.defer()?);
        Err(Deferred::LATER)
    }
    fn feed(&self, cx: Upcall<'_>, _: &[u8]) -> Result<()> {
        drop(cx.defer()?);
        Err(Deferred::LATER)
    }
}

#[test]
fn a_request_counts_until_its_deferred_reply() {
    for kind in KINDS {
        let later = arc::<Later>();
        let (orb, object) = serve(kind, later.clone(), config());
        let mut raw = Raw::connect(object.object());
        for round in 0..3 {
            for _ in 0..CALLS {
                raw.write(&sleep(&raw));
            }
            wait_until("they are deferred", || later.0.lock().unwrap().len() == CALLS);
            wait_until("their octets are not held", || orb.connection_counts().peer_octets == 0);
            assert_eq!(orb.connection_counts().peer_calls, CALLS as u64, "{kind:?}, round {round}");
            raw.write(&sleep(&raw));
            refusal(&raw.receive());
            let deferred = std::mem::take(&mut *later.0.lock().unwrap());
            for (left, one) in deferred.into_iter().enumerate() {
                // One is answered, one abandoned.
                if left % 2 == 0 {
                    one.reply(|e| {
                        e.put(7u32);
                        Ok(Outcome::Results)
                    })
                    .unwrap();
                    assert_eq!(raw.receive().status, 0);
                } else {
                    drop(one);
                    assert_eq!(raw.receive().status, 2);
                }
            }
            await_nothing_held(&orb);
        }
        // A oneway that is deferred counts until its upcall ends.
        let feed = raw.request(Response::None, "feed", b"");
        (0..10).for_each(|_| raw.write(&feed));
        wait_until("none is refused for ever", || raw.call("ping", &[]).status == 0);
        await_nothing_held(&orb);
        orb.shutdown(true).unwrap();
    }
}

/// The octets of a request in fragments of at most `most` octets, a multiple of 8.
fn fragments(request: &[u8], most: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let first = Header::parse(request.first_chunk().unwrap()).unwrap();
    let (head, id) = (&request[..most], &request[12..16]);
    let mut header = Header { more_fragments: true, size: (most - 12) as u32, ..first };
    all.push([&header.write(), &head[12..]].concat());
    let mut rest = request[most..].chunks(most - 16).peekable();
    while let Some(part) = rest.next() {
        header = Header {
            kind: MessageKind::Fragment,
            more_fragments: rest.peek().is_some(),
            size: (part.len() + 4) as u32,
            ..first
        };
        all.push([&header.write(), id, part].concat());
    }
    all
}

#[test]
fn long_messages_are_refused_before_their_octets_are_kept() {
    for kind in KINDS {
        let (orb, object) = serve(kind, arc::<Parrot>(), config());
        let mut raw = Raw::connect(object.object());
        let giant = raw.request(Response::Target, "octets", &vec![5; 4 * OCTETS]);
        for whole in [false, true] {
            let (head, rest) = giant.split_at(if whole { giant.len() } else { 2 * OCTETS });
            raw.write(head);
            let detail = refusal(&raw.receive());
            let expected = format!("127.0.0.1 would hold more than {OCTETS} octets");
            assert!(detail.contains(&expected) && detail.contains("-ORBMaxPeerOctets"), "{detail}");
            raw.write(rest);
            assert_eq!(raw.call("ping", &[]).status, 0, "{kind:?}: the connection lives on");
        }
        // In fragments, each of them short.
        for piece in fragments(&giant, 2048) {
            raw.write(&piece);
        }
        refusal(&raw.receive());
        assert_eq!(raw.call("ping", &[]).status, 0, "{kind:?}: fragments that follow are ignored");
        // What fits is served, also in fragments.
        let fits = raw.request(Response::Target, "octets", &vec![5; OCTETS / 2]);
        raw.write(&fits);
        assert_eq!(raw.receive().status, 0, "{kind:?}");
        let fits = raw.request(Response::Target, "octets", &vec![5; OCTETS / 4]);
        for piece in fragments(&fits, 4096) {
            raw.write(&piece);
        }
        assert_eq!(raw.receive().status, 0, "{kind:?}: in fragments");
        await_nothing_held(&orb);
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn octets_on_all_connections_of_a_client_count_together() {
    for kind in KINDS {
        let (orb, object) = serve(kind, arc::<Parrot>(), config());
        let mut half: Vec<Raw> = (0..2).map(|_| Raw::connect(object.object())).collect();
        let request = half[0].request(Response::Target, "octets", &vec![5; OCTETS / 2]);
        // Both hold most of it, and it is not whole.
        for raw in &mut half {
            raw.write(&request[..request.len() - 8]);
        }
        // At most one more fits.
        let mut third = Raw::connect(object.object());
        wait_until("their octets are there", || orb.connection_counts().peer_octets > OCTETS as u64 / 2);
        wait_until("a third is refused", || {
            third.write(&request);
            third.receive().status == 2
        });
        let mut other = Raw::connect_from(object.object(), [127, 0, 0, 2]);
        let own = other.request(Response::Target, "octets", &vec![5; OCTETS / 2]);
        other.write(&own);
        assert_eq!(other.receive().status, 0, "{kind:?}: another client has its own");
        drop(half);
        await_nothing_held(&orb);
        third.write(&request);
        assert_eq!(third.receive().status, 0, "{kind:?}");
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_client_that_ends_at_any_point_leaves_nothing_counted() {
    for kind in KINDS {
        let witness = arc::<Witness>();
        let (orb, object) = serve(kind, witness.clone(), config());
        let raw = || Raw::connect(object.object());
        let long = raw().request(Response::Target, "octets", &vec![5; OCTETS / 2]);
        let cut = fragments(&long, 4096);
        let ends: [Vec<u8>; 6] = [
            long[..11].to_vec(),
            long[..500].to_vec(),
            long[..long.len() - 1].to_vec(),
            cut[0].clone(),
            cut[..4].concat(),
            [cut[..4].concat(), cut[4][..2000].to_vec()].concat(),
        ];
        for (end, octets) in ends.iter().enumerate() {
            let mut client = raw();
            client.write(octets);
            wait_until(format!("they are counted ({kind:?}, {end})"), || {
                orb.connection_counts().peer_octets > 0
            });
            drop(client);
            await_nothing_held(&orb);
        }
        // In the discarded rest of a refused request.
        let mut client = raw();
        let giant = client.request(Response::Target, "octets", &vec![5; 4 * OCTETS]);
        client.write(&giant[..2 * OCTETS]);
        refusal(&client.receive());
        drop(client);
        await_nothing_held(&orb);
        // While requests run, and wait in the lane's buffer.
        let mut clients: Vec<Raw> = (0..CALLS).map(|_| raw()).collect();
        for client in &mut clients {
            client.write(&sleep(client));
        }
        wait_until("they are there", || orb.connection_counts().peer_calls == CALLS as u64);
        drop(clients);
        assert_eq!(orb.connection_counts().peer_calls, CALLS as u64, "{kind:?}: they run on");
        witness.open(CALLS as u32);
        await_nothing_held(&orb);
        orb.shutdown(true).unwrap();
    }
}
