//! Objects that are found again without a look-up.

use super::*;
use isorb_giop::message::OperationName;

fn found(bed: &Bed, trace: &Trace) -> Option<Servant> {
    let entered = trace.find(bed.registry())?.enter(OperationName::from("ping"));
    Some(entered.servant().clone())
}

fn trace(bed: &Bed, key: &[u8]) -> Trace {
    let found = bed.registry().find_active(key).unwrap();
    let trace = found.trace();
    drop(found.enter(OperationName::from("ping")));
    trace
}

#[test]
fn a_trace_leads_to_the_object_as_long_as_it_is_active() {
    let (bed, other) = (Bed::new(), Bed::new());
    let poa = bed.poa("a", user_ids());
    let probe = Arc::new(Probe(1));
    let servant = Servant::new::<ProbeRef, Probe>(probe.clone());
    poa.activate_object_with_id("x", servant.clone()).unwrap();
    let key = poa.key(b"x");
    assert!(found(&bed, &Trace::default()).is_none());
    let trace_of_it = trace(&bed, &key);
    assert_eq!(found(&bed, &trace_of_it), Some(servant.clone()));
    // Another ORB has another object with this key.
    assert!(found(&other, &trace_of_it).is_none());

    // Deactivated while an upcall runs: it takes no more.
    let running = trace_of_it.find(bed.registry()).unwrap().enter(OperationName::from("ping"));
    poa.deactivate_object("x").unwrap();
    assert!(found(&bed, &trace_of_it).is_none());
    drop(running);
    drop(servant);
    // The trace keeps nothing alive.
    assert_eq!(Arc::strong_count(&probe), 1);
    assert!(found(&bed, &trace_of_it).is_none());

    let next = super::probe();
    poa.activate_object_with_id("x", next.clone()).unwrap();
    assert!(found(&bed, &trace_of_it).is_none());
    assert_eq!(found(&bed, &trace(&bed, &key)), Some(next));
}

#[test]
fn a_trace_does_not_lead_through_a_closed_gate() {
    let bed = Bed::new();
    let poa = bed.root().create_poa("a", None, user_ids()).unwrap();
    poa.activate_object_with_id("x", probe()).unwrap();
    poa.manager().activate().unwrap();
    let trace = trace(&bed, &poa.key(b"x"));
    assert!(found(&bed, &trace).is_some());
    poa.manager().discard_requests(false).unwrap();
    assert!(found(&bed, &trace).is_none());
    poa.manager().hold_requests(false).unwrap();
    assert!(found(&bed, &trace).is_none());
    poa.manager().activate().unwrap();
    assert!(found(&bed, &trace).is_some());
    assert!(poa.gate().is_empty());
    poa.destroy(true, true).unwrap();
    assert!(found(&bed, &trace).is_none());
}
