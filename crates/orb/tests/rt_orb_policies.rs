//! Policies at the scope of the ORB, and the policies of references.

mod common;

use common::rt::{Witness, arc, lane};
use common::{Echo, EchoRef};
use isorb::poa::{CreateError, PoaPolicies};
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::policy::{
    PRIORITY_BANDED_CONNECTION, PRIORITY_MODEL, PRIVATE_CONNECTION, PriorityBand, PriorityModelPolicy,
    RtPolicy, THREAD_POOL,
};
use isorb::rt::{Overrides, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference};

const URGENT: i16 = 20_000;

fn model(model: isorb::rt::policy::PriorityModel, server_priority: i16) -> RtPolicy {
    RtPolicy::PriorityModel(PriorityModelPolicy { model, server_priority })
}

#[test]
fn poas_have_the_policies_of_their_orb_unless_they_set_their_own() {
    let orb = Orb::with_config(Config::default()).unwrap();
    let rt = orb.rt();
    let lanes = [lane(700, 1), lane(URGENT, 1)];
    let pool = rt.create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let set = [RtPolicy::ThreadPool(pool), model(ServerDeclared, URGENT)];
    assert_eq!(rt.set_poa_policies(&set).unwrap(), []);
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    let create = |name, policies| root.create_poa(name, Some(&root.manager()), policies);
    let other = rt.create_threadpool(lane(5, 1), &ThreadpoolOptions::default()).unwrap();
    let witness = [(); 3].map(|()| arc::<Witness>());
    let own = PoaPolicies::new().threadpool(other).priority_model(ClientPropagated, 5);
    let objects: [EchoRef; 3] = [
        root.activate(witness[0].clone()).unwrap(),
        create("child", PoaPolicies::new()).unwrap().activate(witness[1].clone()).unwrap(),
        create("own", own).unwrap().activate(witness[2].clone()).unwrap(),
    ];
    let threads = [format!("pool{pool}-{URGENT}"), format!("pool{pool}-{URGENT}"), format!("pool{other}-5")];
    for ((object, witness), thread) in objects.iter().zip(&witness).zip(threads) {
        object.ping().unwrap();
        assert_eq!(witness.take().pop().unwrap().thread, thread);
    }
    // A pool cannot go while POAs use it by the ORB's policies.
    assert!(rt.destroy_threadpool(pool).is_err());
    // What contradicts the POA's own policies is refused when it is created.
    let unfit = create("unfit", PoaPolicies::new().priority_model(ServerDeclared, 3)).unwrap_err();
    assert!(matches!(unfit, CreateError::InvalidPolicy(_)), "{unfit:?}");
    assert_eq!(rt.set_poa_policies(&[]).unwrap(), set);
    create("plain", PoaPolicies::new()).unwrap();
    for (policies, kind) in [
        (vec![RtPolicy::PrivateConnection], Kind::NoPermission),
        (vec![model(ServerDeclared, -1)], Kind::InvPolicy),
        (vec![RtPolicy::ThreadPool(1), RtPolicy::ThreadPool(2)], Kind::BadParam),
    ] {
        assert_eq!(rt.set_poa_policies(&policies).unwrap_err().kind, kind);
    }
    orb.shutdown(true).unwrap();
}

#[test]
fn a_reference_tells_its_policies_and_the_effective_overrides() {
    struct Plain;
    impl Echo for Plain {}
    let orb = Orb::with_config(Config::default()).unwrap();
    let root = orb.root_poa().unwrap();
    let bands = [PriorityBand { low: 0, high: 99 }, PriorityBand { low: 100, high: 32_767 }];
    let policies = PoaPolicies::new().priority_model(ClientPropagated, 7).priority_bands(bands);
    let object: EchoRef = root.create_poa("bands", None, policies).unwrap().activate(arc_of(Plain)).unwrap();
    let object = object.object();
    assert_eq!(object.get_policy(PRIORITY_MODEL), Ok(Some(model(ClientPropagated, 7))));
    assert_eq!(
        object.get_policy(PRIORITY_BANDED_CONNECTION),
        Ok(Some(RtPolicy::PriorityBands(bands.into())))
    );
    assert_eq!(object.get_policy(THREAD_POOL), Ok(None), "it is the server's");
    assert_eq!(object.get_policy(PRIVATE_CONNECTION), Ok(None));
    assert_eq!(object.get_client_policy(PRIORITY_BANDED_CONNECTION), None);
    assert_eq!(object.get_policy(31).unwrap_err().kind, Kind::InvPolicy);
    let private = object.with_rt_overrides(&Overrides::new(&[RtPolicy::PrivateConnection]).unwrap());
    assert_eq!(private.get_policy(PRIVATE_CONNECTION), Ok(Some(RtPolicy::PrivateConnection)));
    assert_eq!(private.get_client_policy(PRIVATE_CONNECTION), Some(RtPolicy::PrivateConnection));
    let others = RtPolicy::PriorityBands(vec![PriorityBand { low: 1, high: 2 }]);
    let contradicts = object.with_rt_overrides(&Overrides::new(std::slice::from_ref(&others)).unwrap());
    assert_eq!(contradicts.get_policy(PRIORITY_BANDED_CONNECTION).unwrap_err().kind, Kind::InvPolicy);
    assert_eq!(contradicts.get_client_policy(PRIORITY_BANDED_CONNECTION), Some(others));
    orb.shutdown(true).unwrap();
}

fn arc_of<T>(servant: T) -> std::sync::Arc<T> {
    std::sync::Arc::new(servant)
}
