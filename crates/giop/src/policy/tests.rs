use super::*;
use crate::profile::{TAG_TAO_DIOP, TAG_TAO_SHMIOP, TAG_TAO_UIOP};
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;

fn value(policy_type: u32, octets: &[u8]) -> PolicyValue {
    PolicyValue { policy_type, value: octets.into() }
}

fn band(low: i16, high: i16) -> PriorityRange {
    PriorityRange { low, high }
}

/// The octets of a policy in the order of this machine begin with its flag; written by hand they
/// are big endian.
#[test]
fn golden() {
    // RT-CORBA 1.2, priority models: PriorityModel (an enum, so an unsigned long), Priority.
    let model = value(PRIORITY_MODEL, b"\0\0\0\0\0\0\0\x01\x40\0");
    let expected = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: 0x4000 };
    assert_eq!(RtPolicy::parse(&model), Ok(Some(RtPolicy::PriorityModel(expected))));
    // Little endian.
    let model = value(PRIORITY_MODEL, b"\x01\0\0\0\0\0\0\0\x02\0");
    let expected = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 2 };
    assert_eq!(RtPolicy::parse(&model), Ok(Some(RtPolicy::PriorityModel(expected))));
    // Clause 5.12: sequence<PriorityBand>.
    let bands = value(PRIORITY_BANDED_CONNECTION, b"\0\0\0\0\0\0\0\x02\0\0\0\x09\0\x0a\x7f\xff");
    assert_eq!(RtPolicy::parse(&bands), Ok(Some(RtPolicy::PriorityBands(vec![band(0, 9), band(10, 32767)]))));
    // Clause 5.15: sequence<Protocol>; TCP's five attributes in order.
    let tcp = value(CLIENT_PROTOCOL, b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x10\0\0\0\x20\0\x01\0\x01");
    let properties = TcpProperties {
        send_buffer_size: 0x1000,
        recv_buffer_size: 0x2000,
        keep_alive: true,
        dont_route: false,
        no_delay: true,
        network_priority: false,
    };
    assert_eq!(RtPolicy::parse(&tcp), Ok(Some(RtPolicy::ClientProtocol(vec![Protocol::iiop(properties)]))));
    assert_eq!(
        RtPolicy::parse(&value(THREAD_POOL, b"\0\0\0\0\0\0\0\x05")),
        Ok(Some(RtPolicy::ThreadPool(5)))
    );
    assert_eq!(RtPolicy::parse(&value(PRIVATE_CONNECTION, b"\0")), Ok(Some(RtPolicy::PrivateConnection)));
    assert_eq!(RtPolicy::parse(&value(23, b"?")), Ok(None), "another policy");
}

/// Clause 7.6.6.5 of CORBA 3.3 part 2: in the component each policy is {type, octets}.
#[test]
fn the_component_carries_what_concerns_clients() {
    let model = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 7 };
    let policies = [
        RtPolicy::ThreadPool(1),
        RtPolicy::PriorityModel(model),
        RtPolicy::ServerProtocol(vec![Protocol::with_tag(TAG_TAO_DIOP)]),
        RtPolicy::PriorityBands(vec![band(1, 2)]),
    ];
    let component = to_component(&policies).unwrap().unwrap();
    assert_eq!(component.tag, TAG_POLICIES);
    let foreign = TaggedComponent { tag: 99, data: b"?".into() };
    let read = from_components(&[foreign, component.clone()]).unwrap();
    assert_eq!(read, [policies[1].clone(), policies[3].clone()]);
    assert_eq!(to_component(&policies[..1]), Ok(None));
    // The whole component by hand, in this machine's order where it is little endian.
    if cfg!(target_endian = "little") {
        assert_eq!(
            component.data,
            b"\x01\0\0\0\x02\0\0\0\
              \x28\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\
              \x2d\0\0\0\x0c\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x02\0"
        );
    }
    let cut = TaggedComponent { data: component.data[..20].into(), ..component };
    assert!(from_components(&[cut]).is_err());
}

#[test]
fn what_cannot_be_is_refused() {
    let model = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: -1 };
    for (policy, error) in [
        (RtPolicy::PriorityModel(model), PolicyError::NegativePriority),
        (RtPolicy::PriorityBands(vec![]), PolicyError::NoBands),
        (RtPolicy::PriorityBands(vec![band(0, 1), band(-1, 4)]), PolicyError::NegativeBand),
        (RtPolicy::PriorityBands(vec![band(5, 4)]), PolicyError::EmptyBand),
        (RtPolicy::ClientProtocol(vec![]), PolicyError::NoProtocols),
        (RtPolicy::ServerProtocol(vec![]), PolicyError::NoProtocols),
    ] {
        assert_eq!(policy.check(), Err(error), "{policy:?}");
        assert!(!error.to_string().is_empty());
        let written = policy.to_value().unwrap();
        assert_eq!(RtPolicy::parse(&written).unwrap_err().kind, ErrorKind::Value, "from the wire");
    }
    // An unknown model; a boolean of 2.
    assert!(RtPolicy::parse(&value(PRIORITY_MODEL, b"\0\0\0\0\0\0\0\x02\0\0")).is_err());
    let tcp = value(CLIENT_PROTOCOL, b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x10\0\0\0\x20\0\x02\0\x01");
    assert_eq!(RtPolicy::parse(&tcp).unwrap_err().kind, ErrorKind::Value);
    let zero = SharedMemoryProperties { mmap_filename: "a\0b".into(), ..Default::default() };
    let zero = Protocol { tag: TAG_TAO_SHMIOP, properties: ProtocolProperties::SharedMemory(zero) };
    assert!(RtPolicy::ClientProtocol(vec![zero]).to_value().is_err());
}

#[test]
fn policies_by_the_scopes_that_take_them() {
    let exposed: Vec<u32> =
        all().iter().filter(|p| p.is_client_exposed()).map(RtPolicy::policy_type).collect();
    assert_eq!(exposed, [PRIORITY_MODEL, CLIENT_PROTOCOL, PRIORITY_BANDED_CONNECTION]);
    let override_: Vec<u32> =
        all().iter().filter(|p| p.is_client_override()).map(RtPolicy::policy_type).collect();
    assert_eq!(override_, [CLIENT_PROTOCOL, PRIVATE_CONNECTION, PRIORITY_BANDED_CONNECTION]);
    assert_eq!(type_name(39), None);
    assert!(all().iter().all(|policy| type_name(policy.policy_type()).is_some()));
}

fn all() -> [RtPolicy; 6] {
    let shared = SharedMemoryProperties {
        preallocate_buffer_size: 65536,
        mmap_filename: "/dev/shm/a".into(),
        no_delay: true,
        ..Default::default()
    };
    let protocols = vec![
        Protocol { tag: TAG_TAO_SHMIOP, properties: ProtocolProperties::SharedMemory(shared) },
        Protocol::unix(UnixProperties { send_buffer_size: 1, recv_buffer_size: 2 }),
        Protocol::iiop(TcpProperties { recv_buffer_size: 9, ..Default::default() }),
        Protocol::with_tag(TAG_TAO_DIOP),
        Protocol::with_tag(0x1234),
    ];
    [
        RtPolicy::PriorityModel(PriorityModelPolicy {
            model: PriorityModel::ClientPropagated,
            server_priority: 32767,
        }),
        RtPolicy::ThreadPool(77),
        RtPolicy::ServerProtocol(protocols.clone()),
        RtPolicy::ClientProtocol(protocols),
        RtPolicy::PrivateConnection,
        RtPolicy::PriorityBands(vec![band(0, 0), band(1, 32767)]),
    ]
}

#[test]
fn round_trips() {
    for policy in all() {
        assert_eq!(RtPolicy::parse(&policy.to_value().unwrap()), Ok(Some(policy)));
    }
    // Without properties the defaults travel: a reader knows the protocol by its tag alone.
    let plain = RtPolicy::ClientProtocol(vec![Protocol::with_tag(0), Protocol::with_tag(TAG_TAO_UIOP)]);
    let Ok(Some(RtPolicy::ClientProtocol(read))) = RtPolicy::parse(&plain.to_value().unwrap()) else {
        panic!("a client protocol policy")
    };
    assert_eq!(read[0], Protocol::iiop(TcpProperties::default()));
    assert_eq!(read[1], Protocol::unix(UnixProperties::default()));
}

proptest! {
    #[test]
    fn any_octets(policy_type in 39u32..47, octets: Vec<u8>) {
        if let Ok(Some(policy)) = RtPolicy::parse(&PolicyValue { policy_type, value: octets }) {
            prop_assert_eq!(RtPolicy::parse(&policy.to_value().unwrap()), Ok(Some(policy)));
        }
    }
}
