//! The policies that each operation needs, and its effect (clause 15.3.9).

use super::*;

#[test]
fn unique_servants_have_one_id() {
    let bed = Bed::new();
    let poa = bed.poa("unique", PoaPolicies::new());
    let servant = probe();
    let id = poa.activate_object(servant.clone()).unwrap();
    assert_eq!(poa.activate_object(servant.clone()), Err(ActivateError::ServantAlreadyActive));
    assert_eq!(poa.servant_to_id(&servant), Ok(id.clone()));
    let reference = poa.servant_to_reference(&servant).unwrap();
    assert_eq!(poa.reference_to_id(&reference), Ok(id.clone()));
    assert_eq!(poa.reference_to_servant(&reference), Ok(servant.clone()));
    assert_eq!(poa.id_to_servant(&id), Ok(servant.clone()));
    assert_eq!(poa.reference_to_id(&poa.id_to_reference(&id).unwrap()), Ok(id.clone()));
    poa.deactivate_object(&id).unwrap();
    assert_eq!(poa.servant_to_id(&servant), Err(ServantError::ServantNotActive));
    assert_eq!(poa.id_to_servant(&id), Err(ObjectIdError::ObjectNotActive));
    assert_eq!(poa.reference_to_servant(&reference), Err(ToServantError::ObjectNotActive));
    assert_eq!(poa.deactivate_object(&id), Err(ObjectIdError::ObjectNotActive));
    assert!(poa.id_to_reference(&id).is_err());
    assert_ne!(poa.activate_object(servant).unwrap(), id);
}

#[test]
fn multiple_ids_share_a_servant() {
    let bed = Bed::new();
    let poa = bed.poa("multiple", user_ids().id_uniqueness(IdUniqueness::Multiple));
    let servant = probe();
    poa.activate_object_with_id("a", servant.clone()).unwrap();
    poa.activate_object_with_id("b", servant.clone()).unwrap();
    assert_eq!(poa.activate_object_with_id("a", probe()), Err(ActivateWithIdError::ObjectAlreadyActive));
    assert_eq!(poa.servant_to_id(&servant), Err(ServantError::WrongPolicy));
    assert_eq!(poa.activate_object(servant.clone()), Err(ActivateError::WrongPolicy));
    assert!(matches!(poa.create_reference("IDL:x:1.0"), Err(PolicyError::WrongPolicy)));
    // In an upcall of the servant, its reference is that of the upcall.
    let key = poa.key(b"b");
    let entered = bed.registry().enter(&key, "ping").unwrap();
    let reference = poa.servant_to_reference(&servant).unwrap();
    assert_eq!(poa.reference_to_id(&reference).unwrap().as_bytes(), b"b");
    drop(entered);
    assert!(matches!(poa.servant_to_reference(&servant), Err(ServantError::WrongPolicy)));
}

#[test]
fn unique_holds_for_given_ids_too() {
    let bed = Bed::new();
    let poa = bed.poa("user", user_ids());
    let servant = probe();
    poa.activate_object_with_id("a", servant.clone()).unwrap();
    assert_eq!(poa.activate_object_with_id("b", servant), Err(ActivateWithIdError::ServantAlreadyActive));
}

#[test]
fn system_ids_are_recognised() {
    let bed = Bed::new();
    let poa = bed.poa("system", PoaPolicies::new());
    let bad = Err(omg(Kind::BadParam, 14).into());
    assert_eq!(poa.activate_object_with_id("mine", probe()), bad);
    assert_eq!(poa.activate_object_with_id([0, 0, 0, 0, 0, 0, 0, 1], probe()), bad);
    assert_eq!(poa.create_reference_with_id("mine", PROBE.id).unwrap_err(), omg(Kind::BadParam, 14));
    // A reference first, its servant later: in its own slot.
    let reference = poa.create_reference(PROBE.id).unwrap();
    let id = poa.reference_to_id(&reference).unwrap();
    assert_eq!(bed.try_enter(&poa.key(&id)), Err(omg(Kind::ObjectNotExist, 0)));
    poa.activate_object_with_id(&id, probe()).unwrap();
    assert_eq!(bed.try_enter(&poa.key(&id)), Ok(()));
    let other = poa.activate_object(probe()).unwrap();
    assert_ne!(other, id);
    poa.deactivate_object(&id).unwrap();
    assert_eq!(bed.try_enter(&poa.key(&other)), Ok(()));
}

#[test]
fn the_root_activates_implicitly() {
    let bed = Bed::new();
    let (root, servant) = (bed.root(), probe());
    let reference = root.servant_to_reference(&servant).unwrap();
    assert_eq!(root.servant_to_id(&servant), root.reference_to_id(&reference).map_err(|_| unreachable!()));
    let typed: ProbeRef = root.activate(Arc::new(Probe(1))).unwrap();
    assert!(root.reference_to_servant(typed.object()).is_ok());
    let child = bed.poa("child", PoaPolicies::new());
    assert!(matches!(child.servant_to_reference(&servant), Err(ServantError::ServantNotActive)));
    assert_eq!(child.reference_to_id(&reference), Err(ToIdError::WrongAdapter));

    // A new one each time with MULTIPLE_ID.
    let many = PoaPolicies::root().id_uniqueness(IdUniqueness::Multiple);
    let many = bed.poa("many", many);
    assert_ne!(many.servant_to_id(&servant).unwrap(), many.servant_to_id(&servant).unwrap());
}

#[test]
fn the_default_servant_takes_the_rest() {
    let bed = Bed::new();
    let policies = user_ids()
        .id_uniqueness(IdUniqueness::Multiple)
        .request_processing(RequestProcessing::DefaultServant);
    for (name, policies) in
        [("retain", policies.clone()), ("not", policies.servant_retention(ServantRetention::NonRetain))]
    {
        let retain = name == "retain";
        let poa = bed.poa(name, policies);
        let key = poa.key(b"any");
        assert_eq!(poa.servant(), Err(DefaultServantError::NoServant));
        assert_eq!(bed.try_enter(&key), Err(omg(Kind::ObjAdapter, 3)));
        let (default, own) = (probe(), probe());
        poa.set_servant(default.clone()).unwrap();
        assert_eq!(poa.servant(), Ok(default.clone()));
        assert_eq!(poa.id_to_servant("any"), Ok(default.clone()));
        assert_eq!(poa.servant_to_id(&default), Err(ServantError::ServantNotActive));
        {
            let entered = bed.registry().enter(&key, "ping").unwrap();
            assert_eq!(entered.servant(), &default);
            assert_eq!(poa.servant_to_id(&default).unwrap().as_bytes(), b"any");
            let inner = poa.key(b"inner");
            let inner = bed.registry().enter(&inner, "ping").unwrap();
            assert_eq!(Current.object_id().unwrap().as_bytes(), b"inner");
            drop(inner);
            assert_eq!(Current.object_id().unwrap().as_bytes(), b"any");
            let reference = poa.servant_to_reference(&default).unwrap();
            assert_eq!(poa.reference_to_servant(&reference), Ok(default.clone()));
        }
        let activated = poa.activate_object_with_id("own", own.clone());
        assert_eq!(activated.is_ok(), retain, "{activated:?}");
        let expected = if retain { own } else { default };
        assert_eq!(bed.registry().enter(&poa.key(b"own"), "ping").unwrap().servant(), &expected);
        assert_eq!(poa.deactivate_object("own").is_ok(), retain);
        assert!(bed.registry().locate(&key).is_ok());
    }
}

#[test]
fn what_the_policies_do_not_have_is_wrong_policy() {
    let bed = Bed::new();
    let plain = bed.poa("plain", PoaPolicies::new());
    assert_eq!(plain.servant(), Err(DefaultServantError::WrongPolicy));
    assert_eq!(plain.set_servant(probe()), Err(PolicyError::WrongPolicy));
    assert!(matches!(plain.servant_manager(), Err(PolicyError::WrongPolicy)));
    let locator = PoaPolicies::new()
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let locator = bed.poa("locator", locator);
    assert_eq!(locator.activate_object(probe()), Err(ActivateError::WrongPolicy));
    assert_eq!(locator.activate_object_with_id("a", probe()), Err(ActivateWithIdError::WrongPolicy));
    assert_eq!(locator.deactivate_object("a"), Err(ObjectIdError::WrongPolicy));
    assert_eq!(locator.id_to_servant("a"), Err(ObjectIdError::WrongPolicy));
    assert!(matches!(locator.id_to_reference("a"), Err(ObjectIdError::WrongPolicy)));
    assert_eq!(locator.servant_to_id(&probe()), Err(ServantError::WrongPolicy));
    let reference = locator.create_reference(PROBE.id).unwrap();
    assert_eq!(locator.reference_to_servant(&reference), Err(ToServantError::WrongPolicy));
    let id = locator.reference_to_id(&reference).unwrap();
    assert_eq!(bed.try_enter(&locator.key(&id)), Err(omg(Kind::ObjAdapter, 4)));
}

#[test]
fn the_number_of_objects_is_bounded() {
    let bed = Bed::new();
    let poa = bed.poa("small", PoaPolicies::new().max_objects(2));
    let first = poa.activate_object(probe()).unwrap();
    poa.activate_object(probe()).unwrap();
    let Err(ActivateError::System(full)) = poa.activate_object(probe()) else { panic!("a third one") };
    assert_eq!(full.kind, Kind::ImpLimit);
    assert!(full.detail.unwrap().contains("max_objects"));
    poa.deactivate_object(first).unwrap();
    poa.activate_object(probe()).unwrap();
}
