//! Reflective memory as a user runs it: a coordinator, two nodes, values from one to the other, a
//! server killed.

mod common;
mod page;

use common::{ISORB, Service, run, unread};
use isorb_testkit::{TempFolder, retry};
use page::state;
use std::process::{Command, Stdio};

fn memory(args: &[&str]) -> (bool, String, String) {
    let (code, output, error) = run(&[&["memory"], args].concat());
    (code == Some(0), output, error)
}

#[test]
fn values_go_from_node_to_node() {
    let folder = TempFolder::new();
    let (a, b, store) = (folder.text("a"), folder.text("b"), folder.text("store.redb"));
    let coordinator = Service::start(&["memory-coordinator", "--port", "0", "--store", &store]);
    let url = coordinator.url.clone();
    let near = Service::start(&["memory-server", "--name", "a", "--socket", &a, "--coordinator", &url]);
    let _far = Service::start(&["memory-server", "--name", "b", "--socket", &b, "--coordinator", &url]);

    let (good, output, error) =
        memory(&["--socket", &a, "write", "plant/1", "pressure 3.2", "--create", "1024"]);
    assert!(good && output == "1\n", "{output}{error}");
    for node in [&a, &b] {
        let (good, output, error) =
            memory(&["--socket", node, "dump", "plant/1", "--raw", "--timeout", "60000"]);
        assert!(good && output == "pressure 3.2", "{output}{error}");
    }
    let (_, output, _) = memory(&["--socket", &b, "dump", "plant/1", "--timeout", "60000"]);
    assert_eq!(output, "00000000  70 72 65 73 73 75 72 65 20 33 2e 32              pressure 3.2\n");
    let (_, output, _) = memory(&["--socket", &a, "ls"]);
    assert!(output.contains("plant/1") && output.contains("1 values"), "{output}");
    let (_, output, _) = memory(&["--coordinator", &url, "ls"]);
    assert!(output.contains("on a") && output.contains("node b") && output.contains("answers"), "{output}");
    let (good, _, error) = memory(&["--socket", &a, "write", "plant/1", &"x".repeat(1025)]);
    assert!(!good && error.contains("1025") && error.contains("1024"), "{error}");
    let (good, _, error) = memory(&["--socket", &b, "dump", "nothing"]);
    assert!(!good && error.contains("there is no area nothing"), "{error}");

    // By an IDL type, as JSON.
    let idl = folder.text("tank.idl");
    std::fs::write(&idl, "struct Tank { double level; long valve; sequence<string> notes; };").unwrap();
    let json = r#"{"level":2.5,"valve":-3,"notes":["full"]}"#;
    let of = ["--idl", &idl, "--type", "Tank"];
    let (good, _, error) =
        memory(&[&["--socket", &a, "write", "tank", json, "--create", "64"][..], &of[..]].concat());
    assert!(good, "{error}");
    // An error in it names the member by its path.
    for (wrong, named) in [
        (r#"{"level":2.5,"valve":-3,"notes":["full",7]}"#, "notes.[1]: 7 is no string"),
        (r#"{"level":"high","valve":-3,"notes":[]}"#, "level: \"high\" is no double"),
        (r#"{"level":2.5,"valve":2147483648,"notes":[]}"#, "valve: 2147483648 is no long"),
        (r#"{"level":2.5,"notes":[]}"#, "the member valve is missing"),
        (r#"{"level":2.5,"valve":-3,"notes":[],"lid":1}"#, "lid"),
    ] {
        let (good, _, error) = memory(&[&["--socket", &a, "write", "tank", wrong][..], &of[..]].concat());
        assert!(!good && error.contains(named), "{wrong}: {error}");
    }
    let dump = ["--socket", &b, "dump", "tank", "--timeout", "60000"];
    let (_, output, error) = memory(&[&dump[..], &of[..]].concat());
    assert_eq!(output.trim(), json, "{error}");
    let (_, output, error) =
        memory(&[&["--socket", &a, "watch", "tank", "--count", "1"][..], &of[..]].concat());
    assert!(output.contains(json), "{output}{error}");
    // The reader of the list may close the pipe before its end.
    let mut list = Command::new(ISORB);
    let list = list.args(["memory", "--socket", &a, "ls"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut list = list.spawn().unwrap();
    drop(list.stdout.take());
    let ended = list.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let (good, _, error) = memory(&[&dump[..], &["--idl", &idl, "--type", "Tink"]].concat());
    assert!(!good && error.contains("no type Tink"), "{error}");
    let (good, _, error) = memory(&["--socket", &a, "write", "tank", "00 ff 7", "--hex"]);
    assert!(!good && error.contains("5 hexadecimal digits"), "{error}");
    let (good, _, error) = memory(&["--socket", &a, "write", "tank", "00 ff 70", "--hex"]);
    assert!(good, "{error}");
    let (_, output, _) = memory(&["--socket", &a, "dump", "tank"]);
    assert!(output.starts_with("00000000  00 ff 70"), "{output}");
    let (good, _, error) = memory(&[&["--socket", &a, "dump", "tank"][..], &of[..]].concat());
    assert!(!good && error.contains("no value of"), "{error}");

    // In the holder an unused area outlives its server.
    let holder = Service::start(&["memory-holder", "--socket", &a]);
    assert_eq!(holder.url, "2");
    drop(near);
    let near = Service::start(&["memory-server", "--name", "a", "--socket", &a, "--coordinator", &url]);
    let output = retry("the command succeeds", || {
        let (good, output, error) = memory(&["--socket", &a, "dump", "plant/1", "--raw"]);
        if good { Ok(output) } else { Err(error) }
    });
    assert_eq!(output, "pressure 3.2");
    drop(holder);
    // Without one it is lost; the server starts at the same place, and says so to the coordinator.
    drop(near);
    let _near = Service::start(&["memory-server", "--name", "a", "--socket", &a, "--coordinator", &url]);
    let output = retry("the command succeeds", || {
        let (good, output, error) = memory(&["--socket", &a, "write", "plant/1", "again", "--create", "64"]);
        if good { Ok(output) } else { Err(error) }
    });
    assert_eq!(output, "1\n");
    let (_, output, error) = memory(&["--socket", &b, "dump", "plant/1", "--raw", "--timeout", "60000"]);
    assert_eq!(output, "again", "{error}");
}

#[test]
fn the_page_of_a_server_shows_its_areas_and_replicas() {
    let folder = TempFolder::new();
    let (a, b) = (folder.text("a"), folder.text("b"));
    let coordinator = Service::start(&["memory-coordinator", "--port", "0", "--memory"]);
    let url = coordinator.url.clone();
    let serve = |name: &str, socket: &str| {
        Service::with_page(&[
            "memory-server",
            "--name",
            name,
            "--socket",
            socket,
            "--coordinator",
            &url,
            "--admin",
            "0",
        ])
    };
    let (_near, near_page) = serve("a", &a);
    let (_far, far_page) = serve("b", &b);
    let (good, _, error) = memory(&["--socket", &a, "write", "plant/1", "3.2", "--create", "64"]);
    assert!(good, "{error}");
    // A reader at the other node until the end of the test.
    let watch = unread(&["memory", "--socket", &b, "watch", "plant/1"]);

    let until = |what: &str, page: &str, so: &dyn Fn(&serde_json::Value) -> bool| {
        retry(what, || {
            let state = state(page);
            if so(&state) { Ok(()) } else { Err(state) }
        });
    };
    until("the area and where it goes", &near_page, &|state| {
        let area = &state["areas"][0];
        state["kind"] == "reflective-memory"
            && state["name"] == "a"
            && area["name"] == "plant/1"
            && area["values"] == 1
            && area["age_ns"].as_u64() > Some(0)
            && area["pushed_to"][0][0] == "b"
    });
    until("the replica", &far_page, &|state| {
        let replica = &state["replicas"][0];
        replica["name"] == "plant/1"
            && replica["values"] == 1
            && replica["readers"] == 1
            && replica["datagrams"] == true
            && replica["lost"].is_u64()
            && replica["worst_age_ns"].is_u64()
    });
    // The page of an event channel shows them below its own numbers.
    let channel = ["event-channel", "--real-time", "off", "--admin", "0", "--admin-also", &near_page];
    let (_channel, page) = Service::with_page(&channel);
    until("both services", &page, &|state| {
        let [channel, memory] = [&state["parts"][0], &state["parts"][1]];
        channel["kind"] == "event-channel" && memory["areas"][0]["name"] == "plant/1"
    });
    // Reading the page does not keep an unused replica.
    drop(watch);
    until("the replica goes with its reader", &far_page, &|state| {
        state["replicas"].as_array().is_some_and(Vec::is_empty)
    });
    until("and so does the channel", &near_page, &|state| {
        state["areas"][0]["pushed_to"].as_array().is_some_and(Vec::is_empty)
    });
}

#[test]
fn the_commands_of_earlier_versions_still_work_and_are_not_listed() {
    let coordinator = Service::start(&["crm-coordinator", "--port", "0", "--memory"]);
    let (code, _, error) = run(&["crm", "--coordinator", &coordinator.url, "ls"]);
    assert_eq!(code, Some(0), "{error}");
    let (_, help, _) = run(&["--help"]);
    assert!(!help.contains("crm") && help.contains("memory-holder"), "{help}");
    for command in ["crm-server", "crm-holder"] {
        assert_eq!(run(&[command, "--help"]).0, Some(0), "{command}");
    }
}
