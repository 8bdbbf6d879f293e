//! Components that interceptors put into references.

use crate::common::{EchoRef, Parrot};
use isorb::interceptor::*;
use isorb::poa::PoaPolicies;
use isorb::{Config, Kind, Orb, Reference, SystemException, minor};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

struct Tagger {
    tag: u32,
    refuse: bool,
    requested: Arc<AtomicU64>,
}

impl IorInterceptor for Tagger {
    fn name(&self) -> &str {
        if self.tag == 0 { "" } else { "tagger" }
    }
    fn establish_components(&self, info: &mut IorInfo<'_>) -> isorb::Result<()> {
        self.requested.fetch_add(1, Ordering::SeqCst);
        if self.tag == 0 {
            return Err(Kind::Internal.into());
        }
        let data = info.adapter_name().as_bytes().to_vec();
        info.add_ior_component(TaggedComponent { tag: self.tag, data });
        let other = TaggedComponent { tag: self.tag + 1, data: vec![1] };
        assert_eq!(
            info.add_ior_component_to_profile(other.clone(), 7).unwrap_err().minor,
            minor::BAD_PARAM_PROFILE_ID
        );
        info.add_ior_component_to_profile(other, 0)
    }
    fn components_established(&self, info: &IorInfo<'_>) -> isorb::Result<()> {
        if self.refuse && info.adapter_name() == "refused" {
            return Err(Kind::NoPermission.into());
        }
        assert!(info.components().len() >= 2);
        Ok(())
    }
}

/// Searches its target for a component.
struct Looker(Mutex<Vec<Vec<u8>>>);

impl ClientRequestInterceptor for Looker {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        self.0.lock().unwrap().push(info.effective_component(0x4953_2000)?.data);
        assert_eq!(info.effective_components(0x4953_2001)?.len(), 1);
        assert_eq!(info.effective_component(0x1234).unwrap_err().minor, minor::BAD_PARAM_COMPONENT_ID);
        assert_eq!(info.effective_profile().unwrap().tag, 0);
        Ok(())
    }
}

#[test]
fn components_are_in_the_references_of_each_poa() {
    let requested: Arc<AtomicU64> = Arc::default();
    let server = Orb::builder()
        .config(Config::default())
        .register(|info| {
            // Its exception is ignored.
            info.add_ior_interceptor(Arc::new(Tagger { tag: 0, refuse: false, requested: Arc::default() }))?;
            let tagger = Tagger { tag: 0x4953_2000, refuse: true, requested: requested.clone() };
            Ok(info.add_ior_interceptor(Arc::new(tagger))?)
        })
        .build()
        .unwrap();
    let looker = Arc::new(Looker(Mutex::default()));
    let client = Orb::builder()
        .config(Config::default())
        .register(|info| Ok(info.add_client_request_interceptor(looker.clone())?))
        .build()
        .unwrap();
    let root = server.root_poa().unwrap();
    let lab = root.create_poa("lab", Some(&root.manager()), PoaPolicies::new()).unwrap();
    assert_eq!(requested.load(Ordering::SeqCst), 2);
    assert!(root.create_poa("lab", None, PoaPolicies::new()).is_err());
    let refused = root.create_poa("refused", None, PoaPolicies::new()).unwrap_err();
    assert_eq!(SystemException::from(refused).minor, minor::OBJ_ADAPTER_IOR_INTERCEPTOR);
    assert!(root.find_poa("refused", false).is_err());
    root.manager().activate().unwrap();
    for poa in [root, lab] {
        for _ in 0..2 {
            let near: EchoRef = poa.activate(Arc::new(Parrot::default())).unwrap();
            let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
            far.ping().unwrap();
        }
    }
    assert_eq!(*looker.0.lock().unwrap(), [&b"RootPOA"[..], b"RootPOA", b"lab", b"lab"]);
    server.shutdown(true).unwrap();
}
