//! What TAO does otherwise than the standard says, as recorded from TAO 2.2.2, and what is done for
//! it.

mod common;

use common::EchoRef;
use common::fake::{Fake, answer, request};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::rt::{Mapping, Overrides, RealTimeConfig};
use isorb::{Config, Orb, Reference};
use isorb_giop::codeset::CodeSetComponentInfo;
use isorb_giop::component::{Component, ORB_TYPE_TAO};
use isorb_giop::context::{BI_DIR_IIOP, CODE_SETS};
use isorb_giop::{IiopProfile, Ior, Version};

/// The first request to a server that its reference names as TAO: operation and context ids.
fn first_request(config: Config, call: impl FnOnce(EchoRef)) -> (String, Vec<u32>) {
    let fake = Fake::new();
    let (host, port) = ("127.0.0.1".into(), fake.0.local_addr().unwrap().port());
    let components = [Component::OrbType(ORB_TYPE_TAO), Component::CodeSets(CodeSetComponentInfo::ours())];
    let components = components.iter().map(|component| component.to_tagged().unwrap()).collect();
    let profile = IiopProfile { version: Version::V1_2, host, port, key: b"k".into(), components };
    let url = Ior::iiop(EchoRef::INTERFACE.id, &profile).unwrap().to_string();
    let orb = Orb::with_config(config).unwrap();
    let server = std::thread::spawn(move || {
        let mut stream = fake.accept();
        let (id, operation, contexts) = request(&mut stream).unwrap();
        answer(&mut stream, id, None);
        (operation, contexts.into_iter().map(|(id, _)| id).collect())
    });
    call(orb.string_to_object(&url).unwrap().unchecked_narrow());
    server.join().unwrap()
}

/// TAO answers `_bind_priority_band` with BAD_OPERATION and prints an error each time.
#[test]
fn bands_are_not_announced() {
    let first = first_request(Config::default(), |echo| {
        let bands = vec![PriorityBand { low: 0, high: 9 }];
        let overrides = Overrides::new(&[RtPolicy::PriorityBands(bands)]).unwrap();
        let banded: EchoRef = echo.object().with_rt_overrides(&overrides).unchecked_narrow();
        banded.ping().unwrap();
    });
    assert_eq!(first, ("ping".to_string(), vec![CODE_SETS]));
}

/// TAO with its code set library reads only the first context that it knows.
#[test]
fn listen_points_come_before_code_sets() {
    let config = Config { bidirectional: true, ..Config::default() };
    let first = first_request(config, |echo| {
        echo.object().orb().root_poa().unwrap();
        echo.ping().unwrap();
    });
    assert_eq!(first, ("ping".to_string(), vec![BI_DIR_IIOP, CODE_SETS]));
}

/// A mapping by the number itself has no native priority for 0, which TAO's servers have as the
/// priority of clients without one: such a request runs in the ordinary class.
#[test]
fn the_direct_mapping_knows_priority_0() {
    let real_time = RealTimeConfig { mapping: Mapping::Direct, ..RealTimeConfig::default() };
    let orb = Orb::with_config(Config { real_time, ..Config::default() }).unwrap();
    let policies = PoaPolicies::new().priority_model(PriorityModel::ClientPropagated, 0);
    orb.root_poa().unwrap().create_poa("propagated", None, policies).unwrap();
    let policies = PoaPolicies::new().priority_model(PriorityModel::ClientPropagated, 1000);
    assert!(orb.root_poa().unwrap().create_poa("too high", None, policies).is_err());
}
