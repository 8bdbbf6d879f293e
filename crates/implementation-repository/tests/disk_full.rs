//! A disk that is full: registrations are refused, and servers are started and found all the same.

use isorb::{Config, Kind, Orb};
use isorb_implementation_repository::isorb_implementation_repository::repository::AddError;
use isorb_implementation_repository::isorb_implementation_repository::{
    Activation, Registration, RepositoryRef, State,
};
use isorb_implementation_repository::{Limits, RegistrationStore, Repository, Settings};
use isorb_testkit::{RunningOrb, fill_disk, on_small_disk, retry, wait_until};
use std::path::Path;

#[test]
fn servers_are_started_while_the_disk_is_full() {
    on_small_disk("servers_are_started_while_the_disk_is_full", on_a_full_disk);
}

fn registration(name: String) -> Registration {
    Registration {
        name,
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "exit 3 # ".to_owned() + &"x".repeat(3000)],
        activation_mode: Activation::Normal,
        start_timeout_ms: 10_000,
        restart_limit: 100,
        restart_period_ms: 60_000,
        ..Registration::default()
    }
}

fn on_a_full_disk(disk: &Path) {
    let orb = RunningOrb::with_config(Config::default());
    let store = RegistrationStore::open(disk.join("imr")).unwrap();
    let settings = Settings { url: String::new(), output: None, limits: Limits::default() };
    let repository = Repository::start(&orb, store, settings).unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let admin: RepositoryRef = client.resolve(&repository.object().to_string()).unwrap();
    admin.add(&registration("first".into())).unwrap();

    let filling = fill_disk(disk);
    let refused = (0..500).find_map(|number| admin.add(&registration(format!("s{number}"))).err());
    let Some(AddError::System(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.kind, Kind::PersistStore, "{refused}");
    assert!(!admin.list().unwrap().is_empty());
    // Its state cannot be stored, and it is started.
    assert!(admin.start("first").is_err(), "it ends at once");
    let status = admin.show("first").unwrap();
    assert_eq!((status.starts, status.server_state), (1, State::Stopped));
    assert!(status.last_failure.contains("exit status 3"), "{}", status.last_failure);

    filling.set_len(0).unwrap();
    let mut number = 1000;
    retry("a registration when there is space", || {
        number += 1;
        admin.add(&registration(format!("s{number}")))
    });
    wait_until("it is listed", || admin.list().unwrap().contains(&format!("s{number}")));
}
