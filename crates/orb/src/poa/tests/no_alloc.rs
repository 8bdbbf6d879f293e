//! The path of a request allocates nothing under any policies.
//!
//! The allocator of this crate's unit tests is set here.

use super::*;
use isorb_rt::alloc_count::{CountingAllocator, allocations_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the same servant for every request, and no cookie.
struct Same(Servant);

impl ServantLocator for Same {
    fn preinvoke(&self, _: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        Ok((self.0.clone(), None))
    }

    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_request_allocates_nothing() {
    assert!(allocations_during(|| Box::new(1)) > 0, "the allocator counts");
    let bed = Bed::new();
    let persistent = user_ids().lifespan(Lifespan::Persistent);
    let multiple = user_ids().id_uniqueness(IdUniqueness::Multiple);
    let defaults = multiple.clone().request_processing(RequestProcessing::DefaultServant);
    let located = multiple
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let poas = [
        ("transient", PoaPolicies::new()),
        ("user", user_ids()),
        ("persistent", persistent),
        ("single", PoaPolicies::new().thread_model(ThreadModel::SingleThread)),
        ("default", defaults),
        ("located", located),
    ];
    let mut keys = Vec::new();
    for (name, policies) in poas {
        let poa = bed.poa(name, policies);
        let id = match name {
            "user" | "persistent" => {
                poa.activate_object_with_id("an id", probe()).unwrap();
                "an id".into()
            }
            "default" => {
                poa.set_servant(probe()).unwrap();
                "any".into()
            }
            "located" => {
                poa.set_servant_manager(ServantManager::locator(Same(probe()))).unwrap();
                "any".into()
            }
            _ => poa.activate_object(probe()).unwrap(),
        };
        keys.push((name, poa.key(&id)));
    }
    for (name, key) in &keys {
        let once = || {
            let entered = bed.registry().enter(key, "ping").unwrap();
            let nested = entered
                .upcall(|_| {
                    let _ = (Current.poa(), Current.servant(), Current.with_object_id(<[u8]>::len));
                    bed.registry().enter(&keys[0].1, "ping").map(drop).is_ok()
                })
                .unwrap();
            assert!(nested);
            entered.postinvoke().unwrap();
        };
        once();
        let count = allocations_during(|| (0..100).for_each(|_| once()));
        assert_eq!(count, 0, "{name}");
    }
    // Rejections do not allocate either, so that a client that calls missing objects takes nothing
    // from the others.
    let stale = [&keys[0].1[..20], &[0xff; 4]].concat();
    assert_eq!(allocations_during(|| assert!(bed.try_enter(&stale).is_err())), 0);
    bed.root().manager().discard_requests(true).unwrap();
    assert_eq!(allocations_during(|| assert!(bed.try_enter(&keys[0].1).is_err())), 0);
}
