//! Creating an ORB: names, and initial references.

use crate::Idle;
use isorb::interceptor::*;
use isorb::{Config, Kind, Orb};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn names_are_unique_but_for_the_anonymous() {
    let destroyed = Arc::default();
    let idle = |name| Arc::new(Idle(name, Arc::clone(&destroyed)));
    let orb = Orb::builder()
        .arguments(["-x".into()])
        .register(|info| {
            assert_eq!(info.arguments(), ["-x"]);
            info.add_client_request_interceptor(idle("a"))?;
            assert_eq!(info.add_client_request_interceptor(idle("a")), Err(InitError::DuplicateName));
            info.add_client_request_interceptor(idle(""))?;
            info.add_client_request_interceptor(idle(""))?;
            // Interceptors of different kinds may share a name.
            info.add_server_request_interceptor(idle("a"))?;
            Ok(())
        })
        .build()
        .unwrap();
    orb.shutdown(true).unwrap();
    assert_eq!(destroyed.load(Ordering::SeqCst), 4);
    let failed = Orb::builder()
        .config(Config::default())
        .register(|info| {
            info.add_client_request_interceptor(idle("a"))?;
            Ok(info.add_client_request_interceptor(idle("a"))?)
        })
        .build();
    assert_eq!(failed.unwrap_err().kind, Kind::Initialize);
}

#[test]
fn initial_references_are_there_from_the_start() {
    let first = Orb::with_config(Config::default()).unwrap();
    let object = first.string_to_object("corbaloc::127.0.0.1:1/x").unwrap();
    let orb = Orb::builder()
        .config(Config::default())
        .register(|info| {
            assert_eq!(info.register_initial_reference("", &object), Err(InitError::InvalidName));
            info.register_initial_reference("Thing", &object)?;
            assert_eq!(info.register_initial_reference("Thing", &object), Err(InitError::InvalidName));
            Ok(())
        })
        .build()
        .unwrap();
    assert!(orb.resolve_initial_references("Thing").unwrap() == object);
}
