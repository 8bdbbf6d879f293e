//! The client's side of Real-Time CORBA: the priority on the wire, the connection of a call, and
//! refusals.
//!
//! The server's reference has the components that a test needs. The servant reports the contexts of
//! each request, the server's ORB the connections.

mod common;

use common::{Echo, EchoRef};
use isorb::rt::policy::{
    PriorityBand, PriorityModel, PriorityModelPolicy, Protocol, RtPolicy, TcpProperties, to_component,
};
use isorb::rt::{Overrides, set_thread_overrides};
use isorb::{Config, Kind, Orb, Reference, Result, Upcall, minor};
use isorb_giop::Ior;
use isorb_giop::context::read_rt_corba_priority;
use isorb_giop::lane_endpoints::{self, LaneEndpoint};
use std::sync::{Arc, Mutex};

/// The priority in context 10 of a request.
#[derive(Default)]
struct Witness {
    priorities: Mutex<Vec<Option<i16>>>,
}

impl Witness {
    fn take(&self) -> Vec<Option<i16>> {
        std::mem::take(&mut self.priorities.lock().unwrap())
    }
}

impl Echo for Witness {
    fn ping(&self, cx: Upcall<'_>) -> Result<()> {
        let priority = cx.service_context(10).map(|data| read_rt_corba_priority(data).unwrap());
        self.priorities.lock().unwrap().push(priority);
        Ok(())
    }
}

struct Server {
    orb: Orb,
    witness: Arc<Witness>,
    url: String,
    near: EchoRef,
}

/// A server with a reference that carries these policies.
fn server(policies: &[RtPolicy]) -> Server {
    let orb = Orb::with_config(Config::default()).unwrap();
    let witness = Arc::new(Witness::default());
    let plain: EchoRef = orb.root_poa().unwrap().activate(witness.clone()).unwrap();
    let background = orb.clone();
    std::thread::spawn(move || background.run());
    let ior = plain.object().ior();
    let mut profile = ior.iiop_profiles().next().unwrap().unwrap();
    profile.components.extend(to_component(policies).unwrap());
    let url = Ior::iiop(ior.type_id.clone(), &profile).unwrap().to_string();
    let near = orb.resolve(&url).unwrap();
    Server { orb, witness, url, near }
}

fn client(server: &Server) -> (Orb, EchoRef) {
    let orb = Orb::with_config(Config::default()).unwrap();
    let far = orb.resolve(&server.url).unwrap();
    (orb, far)
}

fn model(model: PriorityModel, server_priority: i16) -> RtPolicy {
    RtPolicy::PriorityModel(PriorityModelPolicy { model, server_priority })
}

fn bands(list: &[(i16, i16)]) -> RtPolicy {
    RtPolicy::PriorityBands(list.iter().map(|&(low, high)| PriorityBand { low, high }).collect())
}

fn over(policies: &[RtPolicy]) -> Overrides {
    Overrides::new(policies).unwrap()
}

fn with(reference: &EchoRef, policies: &[RtPolicy]) -> EchoRef {
    reference.object().with_rt_overrides(&over(policies)).unchecked_narrow()
}

/// The bands of the server's connections, in order.
fn served(server: &Server) -> Vec<Option<(i16, i16)>> {
    let connections = server.orb.served_connections();
    let mut bands: Vec<_> = connections.iter().map(|c| c.band.map(|band| (band.low, band.high))).collect();
    bands.sort();
    bands
}

/// Runs `f` on a thread of its own, so that `f` may set its priority.
fn apart(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f).join().unwrap();
}

fn kind(result: Result<()>) -> Option<(Kind, u32)> {
    result.err().map(|exception| (exception.kind, exception.minor))
}

const RECONCILE: Option<(Kind, u32)> = Some((Kind::InvPolicy, minor::INV_POLICY_RECONCILE));
const NO_LANE: Option<(Kind, u32)> = Some((Kind::NoResources, minor::NO_RESOURCES_PRIORITY));

#[test]
fn the_priority_travels_where_the_model_says_so() {
    let server = server(&[model(PriorityModel::ClientPropagated, 5)]);
    apart(move || {
        let (orb, echo) = client(&server);
        echo.ping().unwrap();
        assert_eq!(server.witness.take(), [None], "no priority was set: a client that is not real-time");
        for priority in [0, 100, 32767] {
            orb.rt_current().set_the_priority(priority).unwrap();
            echo.ping().unwrap();
            server.near.ping().unwrap();
            assert_eq!(server.witness.take(), [Some(priority); 2], "from elsewhere and in the same ORB");
        }
        server.orb.shutdown(true).unwrap();
    });
}

#[test]
fn a_declared_priority_does_not_travel() {
    for policies in [vec![], vec![model(PriorityModel::ServerDeclared, 7)]] {
        let server = server(&policies);
        apart(move || {
            let (orb, echo) = client(&server);
            orb.rt_current().set_the_priority(100).unwrap();
            echo.ping().unwrap();
            server.near.ping().unwrap();
            assert_eq!(server.witness.take(), [None; 2]);
            server.orb.shutdown(true).unwrap();
        });
    }
}

#[test]
fn each_band_has_its_connection() {
    let both = [model(PriorityModel::ClientPropagated, 0), bands(&[(0, 99), (100, 199), (300, 399)])];
    let by_client = server(&both[..1]);
    let by_server = server(&both);
    for (server, overrides) in [(by_server, over(&[])), (by_client, over(&both[1..]))] {
        apart(move || {
            let (orb, echo) = client(&server);
            let echo: EchoRef = echo.object().with_rt_overrides(&overrides).unchecked_narrow();
            let priorities = [5, 99, 0, 150, 300, 399, 150];
            for priority in priorities {
                orb.rt_current().set_the_priority(priority).unwrap();
                echo.ping().unwrap();
            }
            assert_eq!(server.witness.take(), priorities.map(Some));
            assert_eq!(served(&server), [Some((0, 99)), Some((100, 199)), Some((300, 399))]);
            for priority in [200, 299, 400, 32767] {
                orb.rt_current().set_the_priority(priority).unwrap();
                assert_eq!(kind(echo.ping()), RECONCILE, "{priority} lies outside");
            }
            assert_eq!(server.witness.take(), []);
            server.orb.shutdown(true).unwrap();
        });
    }
}

#[test]
fn a_declared_priority_chooses_the_band() {
    let server = server(&[model(PriorityModel::ServerDeclared, 150), bands(&[(0, 99), (100, 199)])]);
    apart(move || {
        let (orb, echo) = client(&server);
        orb.rt_current().set_the_priority(5).unwrap();
        echo.ping().unwrap();
        assert_eq!(served(&server), [Some((100, 199))]);
        server.orb.shutdown(true).unwrap();
    });
}

#[test]
fn a_private_connection_is_one_references_own() {
    let server = server(&[]);
    apart(move || {
        let (orb, echo) = client(&server);
        let private = with(&echo, &[RtPolicy::PrivateConnection]);
        let other: EchoRef = orb.resolve(&server.url).unwrap();
        let other = with(&other, &[RtPolicy::PrivateConnection]);
        for _ in 0..3 {
            echo.ping().unwrap();
            private.ping().unwrap();
            private.clone().ping().unwrap();
            other.ping().unwrap();
        }
        assert_eq!(served(&server).len(), 3, "one shared, one for each private reference");
        // The same set at another scope: the thread's, then the ORB's.
        let private = over(&[RtPolicy::PrivateConnection]);
        let before = set_thread_overrides(private.clone());
        let fresh: EchoRef = orb.resolve(&server.url).unwrap();
        fresh.ping().unwrap();
        fresh.ping().unwrap();
        assert_eq!(served(&server).len(), 4);
        set_thread_overrides(before);
        fresh.ping().unwrap();
        assert_eq!(served(&server).len(), 4, "without the override the shared one serves");
        orb.set_rt_overrides(private);
        let fresh: EchoRef = orb.resolve(&server.url).unwrap();
        fresh.ping().unwrap();
        assert_eq!(served(&server).len(), 5);
        server.orb.shutdown(true).unwrap();
    });
}

/// Lanes as separate ORBs, so that a test sees the reached one: all have the object under one plain
/// key.
#[test]
fn a_lane_is_reached_at_its_own_address() {
    let lanes = [10i16, 20, 30].map(|priority| (priority, server(&[])));
    let endpoints = lanes.iter().map(|(priority, lane)| {
        lane.orb.register_corbaloc_key("lane", lane.near.object());
        let (host, port) = lane.orb.endpoint_addresses().remove(0);
        LaneEndpoint { address: host, port, priority: *priority }
    });
    let endpoints: Vec<_> = endpoints.collect();
    let mut profile = lanes[0].1.near.object().ior().iiop_profiles().next().unwrap().unwrap();
    profile.key = b"lane".into();
    profile.components.extend(lane_endpoints::write(0, &endpoints).unwrap());
    profile.components.extend(to_component(&[model(PriorityModel::ClientPropagated, 20)]).unwrap());
    let url = Ior::iiop(EchoRef::INTERFACE.id, &profile).unwrap().to_string();
    apart(move || {
        let orb = Orb::with_config(Config::default()).unwrap();
        let echo: EchoRef = orb.resolve(&url).unwrap();
        let reached = || lanes.each_ref().map(|(_, lane)| lane.witness.take());
        echo.ping().unwrap();
        assert_eq!(reached(), [vec![], vec![None], vec![]], "without a priority the lane of the server's");
        for priority in [30, 10, 20, 30] {
            orb.rt_current().set_the_priority(priority).unwrap();
            echo.ping().unwrap();
        }
        assert_eq!(reached(), [vec![Some(10)], vec![Some(20)], vec![Some(30); 2]]);
        for priority in [0, 11, 31] {
            orb.rt_current().set_the_priority(priority).unwrap();
            assert_eq!(kind(echo.ping()), NO_LANE, "no lane has {priority}");
        }
        // Bands decide the lane.
        let banded = with(&echo, &[bands(&[(0, 15), (16, 29), (30, 40)])]);
        for priority in [11, 40, 16] {
            orb.rt_current().set_the_priority(priority).unwrap();
            banded.ping().unwrap();
        }
        assert_eq!(reached(), [vec![Some(11)], vec![Some(16)], vec![Some(40)]]);
        assert_eq!(served(&lanes[0].1), [None, Some((0, 15))]);
        assert_eq!(echo.object().validate_connection(), Ok(vec![]));
        lanes.iter().for_each(|(_, lane)| lane.orb.shutdown(true).unwrap());
    });
}

#[test]
fn explicit_binding_opens_all_connections_and_tells_what_contradicts() {
    let server = server(&[model(PriorityModel::ClientPropagated, 0), bands(&[(0, 99), (100, 199)])]);
    apart(move || {
        let (orb, echo) = client(&server);
        assert_eq!(echo.object().validate_connection(), Ok(vec![]));
        assert_eq!(served(&server), [Some((0, 99)), Some((100, 199))]);
        orb.rt_current().set_the_priority(150).unwrap();
        echo.ping().unwrap();
        assert_eq!(served(&server).len(), 2, "the call finds its connection");
        assert_eq!(echo.object().validate_connections(3), Ok(vec![]));
        assert_eq!(served(&server).len(), 6);
        // A priority outside the bands does not prevent binding the bands.
        orb.rt_current().set_the_priority(500).unwrap();
        assert_eq!(echo.object().validate_connection(), Ok(vec![]));
        let other = bands(&[(0, 199)]);
        let banded = with(&echo, std::slice::from_ref(&other));
        assert_eq!(banded.object().validate_connection(), Ok(vec![other]));
        assert_eq!(kind(banded.ping()), RECONCILE);
        let same = with(&echo, &[bands(&[(0, 99), (100, 199)])]);
        orb.rt_current().set_the_priority(1).unwrap();
        same.ping().unwrap();
        server.orb.shutdown(true).unwrap();
    });
}

#[test]
fn protocols_that_do_not_reconcile_are_refused() {
    let tcp = |size| {
        Protocol::iiop(TcpProperties { send_buffer_size: size, network_priority: true, ..Default::default() })
    };
    let unix = Protocol::unix(Default::default());
    let udp = Protocol::udp(Default::default());
    let of_server = |protocols: &[Protocol]| server(&[RtPolicy::ClientProtocol(protocols.into())]);
    for (server, client_side, works) in [
        (server(&[]), vec![tcp(70_000)], true),
        (server(&[]), vec![unix.clone(), tcp(0)], true),
        (server(&[]), vec![udp.clone()], false),
        (of_server(&[tcp(50_000)]), vec![], true),
        (of_server(&[unix.clone(), tcp(0)]), vec![tcp(0), unix.clone()], true),
        (of_server(std::slice::from_ref(&unix)), vec![tcp(0)], false),
        (of_server(std::slice::from_ref(&udp)), vec![], false),
    ] {
        let (_orb, echo) = client(&server);
        let policies: Vec<_> =
            (!client_side.is_empty()).then_some(RtPolicy::ClientProtocol(client_side)).into_iter().collect();
        let echo = with(&echo, &policies);
        assert_eq!(kind(echo.ping()), if works { None } else { RECONCILE }, "{policies:?}");
        server.orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_malformed_policy_in_a_reference_is_no_policy_to_ignore() {
    let server = server(&[model(PriorityModel::ServerDeclared, 7)]);
    let ior: Ior = server.url.parse().unwrap();
    let mut profile = ior.iiop_profiles().next().unwrap().unwrap();
    profile.components.last_mut().unwrap().data.truncate(15);
    let url = Ior::iiop(ior.type_id, &profile).unwrap().to_string();
    let (orb, echo) = client(&server);
    let broken: EchoRef = orb.string_to_object(&url).unwrap().unchecked_narrow();
    assert_eq!(broken.ping().unwrap_err().kind, Kind::InvObjref);
    echo.ping().unwrap();
    server.orb.shutdown(true).unwrap();
}
