//! Reflective memory as processes on hosts of their own: what each option of `isorb memory-server`
//! and `isorb memory-coordinator` changes is seen from outside, beside a server that was started
//! without it.
//!
//! Skipped with a message where there is no right to make network namespaces.

mod common;

use common::{ISORB, Service, ended};
use isorb::{Config, Orb, Reference};
use isorb_netlab::{Host, Net, tool_place};
use isorb_reflective_memory::idl::Glob_CommRef;
use isorb_testkit::{Process, TempFolder, wait_until};
use std::process::Command;

/// Too long to be reached in a test.
const A_DAY: &str = "86400000";

/// Hosts at a switch, a coordinator on the first.
struct System {
    // In this order they end.
    coordinator: Service,
    folder: TempFolder,
    net: Net,
}

impl System {
    /// The coordinator's URL names these addresses of its host beside its own.
    fn new(net: Net, more: &[&str]) -> System {
        let address = net.host(0).address().to_string();
        let args =
            [&["memory-coordinator", "--memory", "--port", "0", "--host", &address][..], more].concat();
        let coordinator = Service::of(net.host(0).command(ISORB).args(args));
        System { coordinator, folder: TempFolder::new(), net }
    }

    /// A node's server on a host.
    fn server(&self, host: usize, node: &str, more: &[&str]) -> Service {
        let address = self.net.host(host).address().to_string();
        let at = if more.contains(&"--host") { vec![] } else { vec!["--host", &address] };
        self.server_of(&self.coordinator.url, host, node, &[&at, more].concat())
    }

    fn server_of(&self, coordinator: &str, host: usize, node: &str, more: &[&str]) -> Service {
        let socket = self.folder.text(node);
        let args = ["memory-server", "--name", node, "--socket", &socket, "--coordinator", coordinator];
        Service::of(self.net.host(host).command(ISORB).args(args).args(more))
    }

    /// `isorb memory` at a node.
    fn memory(&self, host: usize, node: &str, args: &[&str]) -> (bool, String, String) {
        let (code, output, error) = ended(&mut self.command(host, node, args));
        (code == Some(0), output, error)
    }

    fn command(&self, host: usize, node: &str, args: &[&str]) -> Command {
        let mut command = self.net.host(host).command(ISORB);
        command.args(["memory", "--socket", &self.folder.text(node)]).args(args);
        command
    }

    /// The same until it is dropped; its output is discarded.
    fn goes_on(&self, host: usize, node: &str, args: &[&str]) -> Process {
        Process::unread(&mut self.command(host, node, args))
    }

    fn writes(&self, host: usize, node: &str, area: &str, size: usize, period: &str) -> Process {
        let value = "v".repeat(size);
        let size = size.to_string();
        self.goes_on(host, node, &["write", area, &value, "--create", &size, "--period", period])
    }

    /// What a node lists of an area; nothing where it has none.
    fn line(&self, host: usize, node: &str, area: &str) -> String {
        let (_, output, _) = self.memory(host, node, &["ls", "--over", "0"]);
        let line = output.lines().find(|line| line.split_whitespace().next() == Some(area));
        line.unwrap_or_default().to_owned()
    }

    /// How many values a node has had of an area.
    fn values(&self, host: usize, node: &str, area: &str) -> u64 {
        let line = self.line(host, node, area);
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = words.iter().position(|word| *word == "values");
        place.map_or(0, |place| words[place - 1].parse().unwrap())
    }
}

fn ip(arguments: &str) {
    let done = Command::new(tool_place("ip")).args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The first two hosts get a link of their own.
fn second_link(net: &Net, addresses: [&str; 2]) {
    let hosts = [net.host(0), net.host(1)].map(Host::namespace);
    ip(&format!("-n {} link add eth1 type veth peer name eth1 netns {}", hosts[0], hosts[1]));
    for (host, address) in hosts.into_iter().zip(addresses) {
        ip(&format!("-n {host} addr add {address}/24 dev eth1"));
        ip(&format!("-n {host} link set eth1 up"));
    }
}

#[test]
fn values_calls_and_the_coordinator_are_reached_by_the_second_address() {
    const SECOND: [&str; 2] = ["10.79.0.1", "10.79.0.2"];
    let Some(net) = Net::build_or_skip(2) else { return };
    second_link(&net, SECOND);
    let system = System::new(net, &["--second", SECOND[0]]);
    let url = system.coordinator.url.clone();
    assert!(url.contains("10.78.0.1:") && url.contains(SECOND[0]), "{url}");
    let _a = system.server(0, "a", &["--second", SECOND[0]]);
    let _b = system.server(1, "b", &["--second", SECOND[1], "--silence", "3000"]);
    let _poor = system.server(1, "poor", &["--silence", "3000"]);
    let _writer = system.writes(0, "a", "line", 64, "20");
    wait_until("the area is there", || system.line(0, "a", "line").contains("written every 20 ms"));
    let _watches = ["b", "poor"].map(|node| system.goes_on(1, node, &["watch", "line"]));
    for node in ["b", "poor"] {
        wait_until(node, || system.values(1, node, "line") > 10);
    }

    system.net.cut(0, 1, true).unwrap();
    wait_until("a reader with one path sees the loss", || {
        system.line(1, "poor", "line").contains("without its writer")
    });
    let (had, had_poor) = (system.values(1, "b", "line"), system.values(1, "poor", "line"));
    wait_until("a reader with two paths continues", || system.values(1, "b", "line") > had + 50);
    assert_eq!(system.values(1, "poor", "line"), had_poor, "nothing comes by the first path");
    // What is made now is found and read by the second path as well.
    let (good, _, error) = system.memory(0, "a", &["write", "late", "news", "--create", "16"]);
    assert!(good, "{error}");
    wait_until("set-up by the second address", || {
        let (good, output, _) = system.memory(1, "b", &["dump", "late", "--raw", "--timeout", "60000"]);
        good && output == "news"
    });
    let (good, _, error) = system.memory(1, "poor", &["dump", "late", "--raw"]);
    assert!(!good, "with one address of the writer's node there is no answer: {error}");
    let ls =
        |url: &str| ended(system.net.host(1).command(ISORB).args(["memory", "--coordinator", url, "ls"]));
    wait_until("the coordinator by its second address", || {
        let (code, output, _) = ls(&url);
        code == Some(0) && output.contains("node a") && output.contains("late")
    });
    let (first, _) = url.split_once(",:").unwrap();
    let (code, output, _) = ls(&format!("{first}/ReflectiveMemory"));
    assert!(code != Some(0), "it does not answer at its first address: {output}");

    system.net.cut(0, 1, false).unwrap();
    wait_until("the first path is there again", || system.values(1, "poor", "line") > had_poor + 10);
}

#[test]
fn a_dead_node_is_detected_after_the_configured_silence() {
    let Some(net) = Net::build_or_skip(2) else { return };
    let system = System::new(net, &[]);
    let a = system.server(0, "a", &[]);
    let _quick = system.server(1, "quick", &["--silence", "400"]);
    let _slow = system.server(1, "slow", &["--silence", A_DAY]);
    let _writer = system.writes(0, "a", "line", 16, "50");
    wait_until("the area is there", || system.line(0, "a", "line").contains("written every 50 ms"));
    let _watches = ["quick", "slow"].map(|node| system.goes_on(1, node, &["watch", "line"]));
    for node in ["quick", "slow"] {
        wait_until(node, || system.line(1, node, "line").contains("open"));
    }
    drop(a);
    wait_until("the quick one is told", || {
        let line = system.line(1, "quick", "line");
        line.contains("without its writer") && !line.contains("silent 0")
    });
    let line = system.line(1, "slow", "line");
    assert!(line.contains("open") && line.contains("silent 0"), "the other waits for a day: {line}");
}

#[test]
fn two_nodes_read_one_stream_of_datagrams() {
    const GROUPS: [&str; 2] = ["--multicast", "239.255.77.1:28991"];
    let Some(net) = Net::build_or_skip(3) else { return };
    for host in 0..3 {
        ip(&format!("-n {} route add 224.0.0.0/4 dev eth0", net.host(host).namespace()));
    }
    let system = System::new(net, &[]);
    let nodes = ["a", "b", "c"];
    let _servers: Vec<Service> = (0..3)
        .map(|host| system.server(host, nodes[host], &[&GROUPS[..], &["--silence", A_DAY]].concat()))
        .collect();
    let _lonely = system.server(2, "lonely", &[]);
    let _writer = system.writes(0, "a", "radar", 1000, "4");
    wait_until("the area is there", || system.line(0, "a", "radar").contains("written every"));
    // Packets that the writer's host sends for so many values that came to both: at most, and
    // about.
    let packets = |path: &str| {
        wait_until("there are no readers", || !system.line(0, "a", "radar").contains("pushed to"));
        let watch = ["watch", "radar", "--path", path];
        let watches = [1, 2].map(|host| system.goes_on(host, nodes[host], &watch));
        let had = || [1, 2].map(|host| system.values(host, nodes[host], "radar"));
        wait_until(path, || had().iter().all(|values| *values > 10));
        // Asking takes a while, and values come meanwhile: some are sent between the first look and
        // the second.
        let sent_before = system.net.sent(0).unwrap();
        let (begun, sent) = (had(), system.net.sent(0).unwrap());
        let mut now = begun;
        wait_until(path, || {
            now = had();
            now.iter().zip(begun).all(|(now, begun)| *now > begun + 150)
        });
        let pushed = system.line(0, "a", "radar");
        drop(watches);
        let sent_now = system.net.sent(0).unwrap();
        let came = now.iter().sum::<u64>() - begun.iter().sum::<u64>();
        ([sent_now - sent_before, sent_now - sent], came, pushed)
    };
    let ([sent, _], came, pushed) = packets("udp");
    assert!(sent >= came, "by channels apart each value is sent to each: {sent} packets, {came} values");
    assert!(pushed.contains("pushed to b, c") && !pushed.contains("group"), "{pushed}");
    wait_until("once to both", || {
        let ([_, sent], came, pushed) = packets("multicast");
        println!("{sent} packets, {came} values; {pushed}");
        assert!(pushed.contains("pushed to b, c, group 239.255.77."), "{pushed}");
        4 * sent < 3 * came
    });
    let (good, _, error) =
        system.memory(2, "lonely", &["watch", "radar", "--path", "multicast", "--count", "1"]);
    assert!(!good && error.contains("was started without a group"), "{error}");
}

#[test]
fn a_reader_beyond_the_links_rate_is_refused_with_the_numbers() {
    let Some(net) = Net::build_or_skip(2) else { return };
    let system = System::new(net, &[]);
    let _narrow = system.server(0, "narrow", &["--link", "1"]);
    let _wide = system.server(0, "wide", &["--link", "100"]);
    let _reader = system.server(1, "b", &[]);
    // 4 KiB every 20 ms are 1.7 Mbit/s.
    let watch = |area: &str, deadline: &str| {
        let watch = ["watch", area, "--guaranteed", "--soft", "--deadline", deadline, "--count", "1"];
        system.memory(1, "b", &watch)
    };
    let _writers = ["narrow", "wide"].map(|node| {
        let writer = system.writes(0, node, node, 4096, "20");
        wait_until(node, || system.line(0, node, node).contains("written every 20 ms"));
        writer
    });
    let (good, output, error) = watch("wide", "500");
    assert!(good && output.contains("4096 bytes"), "{output}{error}");
    let (good, _, error) = watch("narrow", "500");
    assert!(!good && error.contains("link") && error.contains("node narrow"), "{error}");
    // The refusal names a period that fits, and so it does.
    let named = error.split("a period of ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let period: f64 = named.unwrap_or_default().parse().unwrap_or_else(|_| panic!("{error}"));
    assert!((40.0..80.0).contains(&period), "4 KiB over 1 Mbit/s, of which four fifths may be: {error}");
    let slower = (period * 1.01).to_string();
    let _writer = system.writes(0, "narrow", "slower", 4096, &slower);
    wait_until("slower", || system.line(0, "narrow", "slower").contains("written every"));
    let (good, output, error) = watch("slower", "500");
    assert!(good && output.contains("4096 bytes"), "{output}{error}");
}

#[test]
fn other_nodes_get_the_published_address() {
    const PUBLIC: &str = "10.78.0.99";
    let Some(net) = Net::build_or_skip(2) else { return };
    // What is sent to others leaves by that address, as behind a router that translates.
    let host = net.host(0).namespace();
    ip(&format!("-n {host} addr add {PUBLIC}/24 dev eth0"));
    ip(&format!("-n {host} route change 10.78.0.0/24 dev eth0 src {PUBLIC}"));
    let system = System::new(net, &[]);
    let _a = system.server(0, "a", &["--host", "0.0.0.0", "--publish", PUBLIC]);
    let _b = system.server(1, "b", &[]);
    let url = system.coordinator.url.clone();
    let nodes = system.net.host(1).run(|| {
        let orb = Orb::with_config(Config::default()).unwrap();
        orb.resolve::<Glob_CommRef>(&url).unwrap().list_nodes().unwrap()
    });
    let published = |name: &str| {
        let node = nodes.as_ref().unwrap().iter().find(|node| node.name == name).unwrap();
        let server = node.server.clone().unwrap();
        let profiles = server.object().ior().iiop_profiles().map(Result::unwrap);
        profiles
            .flat_map(|profile| profile.addresses().map(|(host, _)| host).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    assert_eq!((published("a"), published("b")), (vec![PUBLIC.to_owned()], vec!["10.78.0.2".to_owned()]));
    // Datagrams, too: they come from there, and are taken.
    let (good, _, error) = system.memory(0, "a", &["write", "line", "value", "--create", "16"]);
    assert!(good, "{error}");
    let (good, output, error) = system.memory(1, "b", &["dump", "line", "--raw", "--timeout", "60000"]);
    assert!(good && output == "value", "{output}{error}");
}

#[test]
fn a_trace_of_pushes_becomes_a_page() {
    let Some(net) = Net::build_or_skip(2) else { return };
    let system = System::new(net, &[]);
    let trace = system.folder.text("pushes.trace");
    let _a = system.server(0, "a", &["--trace", &trace]);
    let _b = system.server(1, "b", &[]);
    let _writer = system.writes(0, "a", "line", 4096, "20");
    wait_until("the area is there", || system.line(0, "a", "line").contains("written every 20 ms"));
    let watch = ["watch", "line", "--guaranteed", "--soft", "--deadline", "500"];
    let _watch = system.goes_on(1, "b", &watch);
    let page = system.folder.text("pushes.html");
    let json = system.folder.text("pushes.json");
    wait_until("runs of the channel", || {
        let (code, _, error) = common::run(&["timeline", &trace, "--perfetto", &json, "--out", &page]);
        if code != Some(0) {
            // It is written once a second, for the first time when the server is there.
            assert!(error.contains("pushes.trace"), "{error}");
            return false;
        }
        let events: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let events = events["traceEvents"].as_array().unwrap();
        let of = |so: &dyn Fn(&str) -> bool| {
            events.iter().filter(|event| event["name"].as_str().is_some_and(so)).count()
        };
        of(&|name| name == "line to b: push") > 20
            && of(&|name| name == "line to b: lower" || name == "line to b: upper") > 20
    });
    assert!(std::fs::read_to_string(&page).unwrap().contains("line to b"));
}

/// The policy and real-time priority of a process's dispatching thread.
fn policy(process: u32) -> (u32, u32) {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    for task in tasks.map(|task| task.unwrap().path()) {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        if name.ends_with("(memory-disp-0") {
            // The first word behind the name is the third field.
            let fields: Vec<u32> = rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
            return (fields[41 - 3], fields[40 - 3]);
        }
    }
    panic!("process {process} has no dispatching thread");
}

#[test]
fn dispatching_threads_have_the_priority_that_was_asked_for() {
    const FIFO: u32 = 1;
    let folder = TempFolder::new();
    let serve = |name: &str, more: &[&str]| {
        let (socket, printed) = (folder.text(name), folder.text(format!("{name}-said")));
        let mut command = Command::new(ISORB);
        command.args(["memory-server", "--name", name, "--socket", &socket]).args(more);
        let server = Service::of(command.stderr(std::fs::File::create(&printed).unwrap()));
        (server, std::fs::read_to_string(printed).unwrap())
    };
    let (plain, _) = serve("plain", &[]);
    assert_eq!(policy(plain.id()), (0, 0), "without the option they are ordinary threads");
    let (low, printed) = serve("low", &["--priority", "1000"]);
    if printed.contains("warning") {
        println!("SKIPPED: this process may have no real-time class: {printed}");
        assert_eq!(policy(low.id()), (0, 0), "what is not granted is said, and not had");
        return;
    }
    let (high, _) = serve("high", &["--priority", "30000"]);
    let (low, high) = (policy(low.id()), policy(high.id()));
    assert!(low.0 == FIFO && high.0 == FIFO && low.1 >= 1 && high.1 > low.1, "{low:?}, {high:?}");
}
