//! A repository that has no descriptor for a connection knows nothing of its servers' end.

use isorb::poa::PoaPolicies;
use isorb::poa::policies::{IdAssignment, Lifespan};
use isorb::{Config, Object, Reference, Servant, Upcall};
use isorb_implementation_repository::isorb_implementation_repository::{
    Activation, Registration, RepositoryRef, ServerRef, State,
};
use isorb_implementation_repository::{Limits, RegistrationStore, Repository, Settings};
use isorb_testkit::{RunningOrb, ScarceTransport, TempFolder, wait_until};
use std::sync::Arc;

#[test]
fn a_server_runs_on_while_the_repository_has_no_descriptor() {
    let folder = TempFolder::new();
    let transport = ScarceTransport::new();
    let orb = RunningOrb::with_transport(Config::default(), transport.clone());
    let store = RegistrationStore::open(folder.file("imr")).unwrap();
    let settings = Settings { url: String::new(), output: None, limits: Limits::default() };
    let repository = Repository::start(&orb, store, settings).unwrap();
    let client = RunningOrb::with_transport(Config::default(), ScarceTransport::new());
    let admin: RepositoryRef = client.resolve(&repository.object().to_string()).unwrap();
    let registration = Registration {
        name: "plant".into(),
        activation_mode: Activation::Manual,
        start_timeout_ms: 10_000,
        restart_limit: 1,
        restart_period_ms: 60_000,
        ..Registration::default()
    };
    admin.add(&registration).unwrap();

    let server = RunningOrb::with_transport(
        Config {
            endpoints: vec![ScarceTransport::ENDPOINT.into()],
            implementation_repository: Some(repository.object().to_string()),
            server_name: Some("plant".into()),
            ..Config::default()
        },
        ScarceTransport::new(),
    );
    let root = server.root_poa().unwrap();
    let policies = PoaPolicies::new().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
    let poa = root.create_poa("valves", Some(&root.manager()), policies).unwrap();
    let valve = Servant::new::<ServerRef, _>(Arc::new(Valve));
    poa.activate_object_with_id("one", valve).unwrap();
    let object = poa.create_reference_with_id("one", ServerRef::INTERFACE.id).unwrap().to_string();
    let state = || admin.show("plant").unwrap().server_state;
    wait_until("it has registered", || state() == State::Running);

    // The repository asks the server where the object is.
    transport.set_exhausted(true);
    let refused = client.string_to_object(&object).unwrap().non_existent().unwrap_err();
    assert!(refused.is_shortage(), "{refused}");
    assert_eq!(state(), State::Running);
    transport.set_exhausted(false);
    assert_eq!(client.string_to_object(&object).unwrap().non_existent(), Ok(false));
}

struct Valve;

impl isorb_implementation_repository::isorb_implementation_repository::Server for Valve {
    fn direct_reference<'u>(&'u self, _: Upcall<'u>, _: &'u [u8]) -> isorb::Result<Option<&'u Object>> {
        Ok(None)
    }
}
