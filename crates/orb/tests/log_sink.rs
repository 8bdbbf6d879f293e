//! A server with a standard error that is closed, or full and never read: garbage arrives at each
//! lane while clients call, every call is answered, and no thread but that of the log waits for the
//! sink.
//!
//! The server is this program again.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, lane, poa, server_with};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Config, Orb, Reference};
use isorb_testkit::{Process, threads_in_write, wait_until};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::TcpStream;
use std::process::Command;

const CHILD: &str = "ISORB_LOG_SINK_CHILD";
/// Faulty messages for the lane at the highest priority: more than a ring holds.
const GARBAGE: usize = 60;
const CALLS: usize = 200;

/// Does nothing by itself: the other tests start it as their server.
#[test]
fn serves_the_other_tests() {
    if std::env::var_os(CHILD).is_none() {
        return println!("runs as the server of the other tests only");
    }
    let orb = server_with(Config::default());
    let lanes = [lane(1_000, 1), lane(20_000, 1)];
    let pool = orb.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let root: EchoRef = orb.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
    println!("\nSERVES {}", root.object());
    for priority in [1_000, 20_000] {
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, priority);
        let object: EchoRef = poa(&orb, &priority.to_string(), policies).activate(arc::<Witness>()).unwrap();
        println!("SERVES {}", object.object());
    }
    println!("READY");
    let _ = std::io::stdin().read(&mut [0]);
    orb.shutdown(false).unwrap();
    // Not `exit`, so that the harness prints nothing behind the records.
    drop(orb);
}

struct Server {
    process: Process,
    objects: Vec<EchoRef>,
}

fn server(stderr: PipeWriter) -> Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "serves_the_other_tests", "--nocapture"])
        .env(CHILD, "yes")
        .env_remove("ISORB_LOG");
    let mut process = Process::start(command.stderr(stderr));
    let client = Orb::with_config(Config::default()).unwrap();
    let mut objects: Vec<EchoRef> = Vec::new();
    loop {
        match process.next_line().expect("the server is ready").as_str() {
            "READY" => break Server { process, objects },
            line => {
                objects.extend(line.strip_prefix("SERVES ").map(|object| client.resolve(object).unwrap()))
            }
        }
    }
}

/// Sends a message that is none to the object's endpoint, and waits for the end of the connection.
fn send_garbage(object: &EchoRef) {
    let profile = object.object().ior().iiop_profiles().flatten().next().unwrap();
    let mut stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
    stream.write_all(b"no message of GIOP at all").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Garbage at each lane while clients call; all calls are answered.
fn garbage_and_calls(server: &Server) {
    std::thread::scope(|scope| {
        for object in &server.objects {
            scope.spawn(|| (0..CALLS).for_each(|_| object.ping().unwrap()));
        }
        (0..GARBAGE).for_each(|_| send_garbage(&server.objects[2]));
        server.objects.iter().for_each(send_garbage);
    });
    server.objects.iter().for_each(|object| object.ping().unwrap());
}

/// Fills a pipe until it takes no more.
fn fill(writer: &mut PipeWriter) {
    let blocking = rustix::fs::fcntl_getfl(&*writer).unwrap();
    rustix::fs::fcntl_setfl(&*writer, blocking | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 1024]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    rustix::fs::fcntl_setfl(&*writer, blocking).unwrap();
}

fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fill(&mut writer);
    (reader, writer)
}

#[test]
fn a_closed_standard_error_costs_no_call() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut server = server(writer);
    garbage_and_calls(&server);
    assert_eq!(server.process.ended(), None);
    assert!(server.process.finish().success());
}

#[test]
fn a_full_standard_error_stops_the_log_alone_and_drops_are_said() {
    let (mut reader, writer) = full_pipe();
    let server = server(writer);
    garbage_and_calls(&server);
    wait_until("the log waits for the sink", || threads_in_write(server.process.id(), 2) == ["isorb-log"]);
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    assert!(server.process.finish().success());
    let text = reading.join().unwrap();
    let written = text.lines().filter(|line| line.contains("the connection is closed")).count();
    let sum = |what: &str| -> usize {
        let counts =
            text.lines().filter_map(|line| line.split_once(what)?.1.split(' ').next()?.parse::<usize>().ok());
        counts.sum()
    };
    let (dropped, suppressed) =
        (sum("isorb::log: records dropped: "), sum("isorb::log: records suppressed: "));
    assert!(
        dropped > 0 && written + dropped + suppressed >= GARBAGE,
        "{written} {dropped} {suppressed}: {text}"
    );
}
