//! Runs each example and compares its output with the page beside it.

use isorb::Orb;
use isorb_event::Channel;
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_testkit::{Process, wait_until};
use std::path::Path;
use std::process::Command;

/// The output that the page of this example shows.
fn expected(folder: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```output\n").nth(1).expect("the page shows the output");
    block.split("```").next().unwrap().to_owned()
}

fn check(folder: &str, program: &str) {
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text, expected(folder), "{}", String::from_utf8_lossy(&output.stderr));
}

macro_rules! examples {
    ($($test:ident $folder:literal)*) => {
        $(
            #[test]
            fn $test() {
                check($folder, env!(concat!("CARGO_BIN_EXE_", $folder)));
            }
        )*
        const FOLDERS: &[&str] = &[$($folder),*];
    };
}

examples! {
    asynchronous "asynchronous"
    bridge "bridge"
    callback "callback"
    event_filters "event-filters"
    federation "federation"
    interceptor "interceptor"
    lanes "lanes"
    naming "naming"
    persistence "persistence"
    priorities "priorities"
    recorder "recorder"
    reflective_memory "reflective-memory"
    shared_state "shared-state"
    tls "tls"
}

/// Two programs, and a channel of this process.
#[test]
fn remote_events() {
    let orb = Orb::builder().build().unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    let channel = Channel::builder().build().unwrap();
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let url = service.object().to_string();
    let mut consumer = Process::start(Command::new(env!("CARGO_BIN_EXE_remote-consumer")).arg(&url));
    wait_until("the consumer is connected", || channel.consumers().len() == 1);
    let supplier = Command::new(env!("CARGO_BIN_EXE_remote-supplier")).arg(&url).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&supplier.stdout), "3 pushed, 0 lost\n", "{supplier:?}");
    for line in expected("remote-events").lines() {
        assert_eq!(consumer.next_line().as_deref(), Some(line));
    }
}

#[test]
fn every_folder_has_a_page_in_the_index() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let index = std::fs::read_to_string(here.join("README.md")).unwrap();
    let mut listed = 0;
    for entry in std::fs::read_dir(here).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("README.md").exists() {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            assert!(
                index.contains(&format!("]({name}/README.md)")),
                "examples/README.md does not list {name}"
            );
            listed += 1;
        }
    }
    assert!(listed >= FOLDERS.len() + 4, "{listed} examples have a page");
}
