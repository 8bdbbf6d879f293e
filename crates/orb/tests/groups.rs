//! Groups: one oneway request reaches every member, and no member replies. Malformed requests are
//! logged and affect no other request.
#![cfg(feature = "miop")]

mod common;

use common::*;
use isorb::generated::*;
use isorb::poa::policies::IdAssignment;
use isorb::poa::{GroupError, ObjectId, PoaPolicies};
use isorb::{Config, Object, Orb, Policies, Reference, SyncScope, TransportConfig};
use isorb_giop::component::Component;
use isorb_giop::miop::{PacketHead, UipmcProfile};
use isorb_giop::{Completion, Header, Ior, Kind};
use isorb_testkit::wait_until;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

fn config() -> Config {
    let transport = TransportConfig {
        multicast_interface: "lo".into(),
        // No message is abandoned, even on a machine that stands still.
        multicast_timeout_ms: 60_000,
        ..TransportConfig::default()
    };
    Config { transport, ..Config::default() }
}

/// A URL of a group on a port of its own.
fn url(address: &str, number: u32) -> String {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("corbaloc:miop:1.0@1.0-test-{number}/{address}:{free}")
}

/// Records length and first octet of each `feed`.
#[derive(Default)]
struct Keeper(Mutex<Vec<(usize, u8)>>);

impl Echo for Keeper {
    fn feed(&self, _: Upcall<'_>, o: &[u8]) -> isorb::Result<()> {
        assert!(o.iter().all(|octet| Some(octet) == o.first()), "what was fed came as another thing");
        self.0.lock().unwrap().push((o.len(), o.first().copied().unwrap_or_default()));
        Ok(())
    }
}

impl Keeper {
    fn fed(&self) -> Vec<(usize, u8)> {
        self.0.lock().unwrap().clone()
    }
}

fn server() -> Orb {
    let orb = Orb::with_config(config()).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

/// A new member of the group; `None` if the loopback interface has no multicast.
fn member(orb: &Orb, group: &str) -> Option<(Arc<Keeper>, ObjectId)> {
    let root = orb.root_poa().unwrap();
    let id = match root.create_id_for_reference(&orb.string_to_object(group).unwrap()) {
        Ok(id) => id,
        Err(GroupError::System(error)) if error.kind == Kind::CommFailure => {
            println!("SKIPPED {group}: {error:?}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let keeper = Arc::new(Keeper::default());
    let servant = isorb::IntoServant::<EchoRef>::into_servant(keeper.clone());
    root.activate_object_with_id(&id, servant).unwrap();
    Some((keeper, id))
}

fn group(orb: &Orb, url: &str) -> EchoRef {
    orb.string_to_object(url).unwrap().unchecked_narrow()
}

#[test]
fn every_member_in_every_process_gets_each_oneway() {
    for address in ["239.255.79.1", "[ff15::79]"] {
        let url = url(address, 1);
        let (one, other, client) = (server(), server(), Orb::with_config(config()).unwrap());
        let Some((a, _)) = member(&one, &url) else { continue };
        let members = [a, member(&one, &url).unwrap().0, member(&other, &url).unwrap().0];
        // Another group at the same address.
        let stranger = member(&other, &url.replace("test-1", "test-2")).unwrap().0;
        let far = group(&client, &url);
        // Machines differ in whether the loopback interface has a route for groups of IPv6;
        // netlab's hosts have one.
        if let Some(why) = far.feed(&[9]).err().and_then(|error| error.detail) {
            assert!(why.contains("unreachable") && address.starts_with('['), "{why}");
            println!("SKIPPED {url}: {why}");
            continue;
        }
        wait_until("all members have it", || members.iter().all(|member| member.fed().len() == 1));
        for (i, length) in [0, 1, 7, 1300, 1500, 5_000, 60_000].into_iter().enumerate() {
            far.feed(&vec![i as u8 + 1; length]).unwrap();
            wait_until("all members have it", || members.iter().all(|member| member.fed().len() == i + 2));
        }
        let expected = members[0].fed();
        assert_eq!(expected[6], (5_000, 6));
        assert!(members.iter().all(|member| member.fed() == expected));
        assert!(stranger.fed().is_empty());
        let statistics = one.group_statistics();
        assert_eq!((statistics.messages, statistics.refused), (8, 0), "{statistics:?}");
        // A member in the sending process, too.
        group(&one, &url).feed(&[9]).unwrap();
        wait_until("all members have it", || members.iter().all(|member| member.fed().len() == 9));
        for orb in [client, other, one] {
            orb.shutdown(true).unwrap();
        }
    }
}

#[test]
fn a_group_answers_only_through_its_own_implementation() {
    let url = url("239.255.79.2", 1);
    let (server, client) = (server(), Orb::with_config(config()).unwrap());
    let far = group(&client, &url);
    let refused = far.ping().unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::BadOperation, Completion::No));
    assert!(refused.detail.unwrap().contains(";iiop:"));
    assert_eq!(far.object().narrow::<EchoRef>().unwrap_err().kind, Kind::BadOperation);
    for scope in [SyncScope::WithServer, SyncScope::WithTarget] {
        let policies = Policies { sync_scope: Some(scope), ..Policies::default() };
        let far = EchoRef::from_object(far.object().with_policies(policies));
        assert_eq!(far.feed(&[1]).unwrap_err().kind, Kind::BadOperation);
    }
    let answering: EchoRef = server.root_poa().unwrap().activate(Arc::new(Keeper::default())).unwrap();
    server.register_corbaloc_key("Answering", answering.object());
    let (host, port) = server.endpoint_addresses().remove(0);
    let far = group(&client, &format!("{url};iiop:1.2@{host}:{port}/Answering"));
    assert_eq!(far.text("asked").unwrap(), "asked");
    assert!(!far.object().non_existent().unwrap());
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn membership_begins_and_ends_as_the_poa_is_told() {
    let url = url("239.255.79.3", 1);
    let (orb, client) = (server(), Orb::with_config(config()).unwrap());
    let (root, named) = (orb.root_poa().unwrap(), orb.string_to_object(&url).unwrap());
    let far = group(&client, &url);
    let Some((one, id)) = member(&orb, &url) else { return };
    let (other, other_id) = member(&orb, &url).unwrap();
    let ids = |object: &Object| root.reference_to_ids(object).unwrap();
    assert_eq!(ids(&named), [id.clone(), other_id.clone()]);
    root.associate_reference_with_id(&named, &id).unwrap();
    assert_eq!(ids(&named).len(), 2, "the same once more");
    far.feed(&[1]).unwrap();
    wait_until("both have it", || one.fed().len() + other.fed().len() == 2);
    root.disassociate_reference_with_id(&named, &id).unwrap();
    assert_eq!(root.disassociate_reference_with_id(&named, &id), Err(GroupError::NotAMember));
    far.feed(&[2]).unwrap();
    wait_until("the remaining member gets it", || other.fed().len() == 2);
    assert_eq!((one.fed().len(), ids(&named)), (1, vec![other_id.clone()]));
    // The socket closes with the last member; a new member opens it again.
    root.disassociate_reference_with_id(&named, &other_id).unwrap();
    assert!(ids(&named).is_empty());
    far.feed(&[3]).unwrap();
    root.associate_reference_with_id(&named, &id).unwrap();
    wait_until("it is heard again", || {
        far.feed(&[4]).unwrap();
        one.fed().last() == Some(&(1, 4))
    });
    assert_eq!(other.fed().len(), 2);
    // An inactive object receives nothing, and does no harm.
    root.deactivate_object(&id).unwrap();
    far.feed(&[5]).unwrap();
    // Not a group, not an id of this POA, or not on any interface.
    let plain: EchoRef = root.activate(Arc::new(Keeper::default())).unwrap();
    let plain = plain.object();
    assert_eq!(root.create_id_for_reference(plain), Err(GroupError::NotAGroupObject));
    assert_eq!(root.reference_to_ids(plain), Err(GroupError::NotAGroupObject));
    let bad = root.associate_reference_with_id(&named, b"not made here").unwrap_err();
    assert!(matches!(bad, GroupError::System(exception) if exception.kind == Kind::BadParam));
    let own = root.create_poa("own", None, PoaPolicies::new().id_assignment(IdAssignment::User)).unwrap();
    assert_eq!(own.create_id_for_reference(&named), Err(GroupError::WrongPolicy));
    own.associate_reference_with_id(&named, b"mine").unwrap();
    assert_eq!(own.reference_to_ids(&named).unwrap(), [ObjectId::from(&b"mine"[..])]);
    let mut nowhere = config();
    nowhere.transport.multicast_interface = "no-such-thing".into();
    let nowhere = Orb::with_config(nowhere).unwrap();
    let error = nowhere.root_poa().unwrap().create_id_for_reference(&named).unwrap_err();
    assert!(error.to_string().contains("no interface no-such-thing"), "{error}");
    let error = group(&nowhere, &url).feed(&[1]).unwrap_err();
    assert!(error.detail.unwrap().contains("no interface no-such-thing"));
    for orb in [nowhere, client, orb] {
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn code_sets_of_the_reference_are_said_with_each_request() {
    let url = url("239.255.79.4", 1);
    let (orb, client) = (server(), Orb::with_config(config()).unwrap());
    let Some((keeper, _)) = member(&orb, &url) else { return };
    let ior = client.string_to_object(&url).unwrap().ior().clone();
    let mut profile = UipmcProfile::parse(&ior.profiles[0].data).unwrap();
    let sets = Component::CodeSets(isorb_giop::codeset::CodeSetComponentInfo::ours());
    profile.components.push(sets.to_tagged().unwrap());
    let ior = Ior { type_id: "IDL:Test/Echo:1.0".into(), profiles: vec![profile.to_tagged().unwrap()] };
    let far: EchoRef = client.resolve(&ior.to_string()).unwrap();
    for octet in 1..=3 {
        far.feed(&[octet]).unwrap();
    }
    wait_until("three requests", || keeper.fed().len() == 3);
    assert_eq!(keeper.fed(), [(1, 1), (1, 2), (1, 3)]);
    client.shutdown(true).unwrap();
    orb.shutdown(true).unwrap();
}

#[test]
fn what_is_too_long_is_refused_and_what_is_not_for_the_group_is_counted() {
    let url = url("239.255.79.5", 1);
    let (orb, client) = (server(), Orb::with_config(config()).unwrap());
    let Some((keeper, _)) = member(&orb, &url) else { return };
    let far = group(&client, &url);
    assert!(format!("{:?}", far.object()).contains("group 1 of test"), "{far:?}");
    let refused = far.feed(&vec![1; 66_000]).unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::ImpLimit, Completion::No));
    assert!(refused.detail.unwrap().contains("65536"));
    // Another group at the same address.
    group(&client, &url.replace("test-1", "test-7")).feed(&[1]).unwrap();
    wait_until("that group has no member", || orb.group_statistics().refused == 1);
    // Complete messages that are not requests to groups, one of them with an expected reply; and
    // noise.
    let at = far.object().ior().profiles[0].clone();
    let profile = UipmcProfile::parse(&at.data).unwrap();
    let hostile = isorb::transport::Multicast { interface: "lo".into(), ..Default::default() };
    let hostile = hostile.sender(format!("{}:{}", profile.address, profile.port).parse().unwrap()).unwrap();
    let mut number = 0;
    let mut send = |message: &[u8]| {
        number += 1;
        let (id, length) = (*b"a hostile id", message.len() as u16);
        let id = std::array::from_fn(|i| if i == 0 { number } else { id[i] });
        let head = PacketHead { number: 0, count: 1, id, length };
        hostile.send(&[&head.write()[..], message].concat()).unwrap();
    };
    let mut asking = isorb_giop::message::RequestHead::by_profile(&at).map(|head| {
        let mut e = Encoder::new(Vec::new(), isorb_cdr::Text::DEFAULT);
        head.write(&mut e, 7, isorb_giop::message::Response::Target, "feed", &[]);
        let mut written = e.finish().unwrap();
        isorb_giop::message::finish_header(&mut written).unwrap();
        written.into_buffer()
    });
    let asking = asking.as_mut().unwrap();
    send(asking);
    send(&asking[..asking.len() - 1]);
    send(&isorb_giop::message::message_error(isorb_giop::Version::V1_2));
    send(b"GIOP");
    // A request with a truncated header, so that no argument is there: the servant is not called,
    // and its thread continues.
    asking[Header::LEN + 4] = 0;
    send(asking);
    hostile.send(b"noise").unwrap();
    far.feed(&[2]).unwrap();
    wait_until("the good one", || !keeper.fed().is_empty());
    assert_eq!(keeper.fed(), [(1, 2)]);
    let statistics = orb.group_statistics();
    assert_eq!((statistics.refused, statistics.ignored), (5, 1), "{statistics:?}");
    client.shutdown(true).unwrap();
    orb.shutdown(true).unwrap();
}
