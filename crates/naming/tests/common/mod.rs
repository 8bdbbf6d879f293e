//! A naming service in an ORB of its own, and a client's view of it.
#![allow(dead_code)]

use isorb::{Config, Object, Orb};
use isorb_naming::cos_naming::{NameComponent, NamingContextExtRef};
use isorb_naming::{Limits, MemoryStore, NamingService, Store};
use isorb_testkit::RunningOrb;
use std::sync::Arc;

/// A running naming service.
pub struct Served {
    pub orb: RunningOrb,
    pub service: NamingService,
    pub port: u16,
}

impl Served {
    pub fn start(store: Arc<dyn Store>, limits: Limits, port: u16) -> Served {
        let config = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
        let orb = RunningOrb::with_config(config);
        let service = NamingService::start(&orb, store, limits).unwrap();
        let port = orb.endpoint_addresses()[0].1;
        Served { orb, service, port }
    }

    pub fn memory() -> Served {
        Served::start(Arc::new(MemoryStore::new()), Limits::default(), 0)
    }

    pub fn url(&self) -> String {
        format!("corbaloc::1.2@127.0.0.1:{}/NameService", self.port)
    }

    /// The root context as another ORB sees it.
    pub fn far(&self) -> NamingContextExtRef {
        client().resolve(&self.url()).unwrap()
    }
}

pub fn client() -> Orb {
    Orb::with_config(Config::default()).unwrap()
}

/// A name from its text.
pub fn name(text: &str) -> Vec<NameComponent> {
    let parsed: isorb_giop::Name = text.parse().unwrap();
    parsed.into_components().into_iter().map(|step| NameComponent { id: step.id, kind: step.kind }).collect()
}

/// An object that is never called.
pub fn object(orb: &Orb, number: u32) -> Object {
    orb.string_to_object(&format!("corbaloc::1.2@127.0.0.1:1/object{number}")).unwrap()
}
