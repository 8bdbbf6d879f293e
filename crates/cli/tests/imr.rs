//! `isorb imr` as a user runs it, with `isorb naming` as the server: its root context is
//! persistent, so that its reference leads to the repository.

mod common;

use common::{ISORB, Service, ended, isorb, run};
use isorb::{Completion, Config, Kind, Orb, Reference, minor};
use isorb_implementation_repository::isorb_implementation_repository::{RepositoryRef, ServerRef};
use isorb_naming::cos_naming::{NameComponent, NamingContextRef};
use isorb_testkit::{Process, TempFolder, freeze, resume, wait_for, wait_until};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A repository, and what it stores.
struct Repository {
    service: Service,
    folder: TempFolder,
    port: u16,
}

impl Repository {
    fn start(options: &[&str]) -> Repository {
        // References have the port, so that a restart needs the same one.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = TempFolder::new();
        let service = Repository::serve(&folder, port, options);
        Repository { service, folder, port }
    }

    fn serve(folder: &TempFolder, port: u16, options: &[&str]) -> Service {
        let port = port.to_string();
        let arguments = ["imr", "serve", "--port", &port, "--output", "."];
        Service::of(isorb(&[&arguments[..], options].concat()).current_dir(folder.path()))
    }

    /// Kills the repository and starts it again.
    fn restart(&mut self) {
        signal(self.service.id(), "-KILL");
        wait_for("the end of the repository", || self.service.ended());
        self.service = Repository::serve(&self.folder, self.port, &[]);
    }

    /// Runs `isorb imr`, which succeeds.
    fn imr(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.imr_ended(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {out}{error}");
        out
    }

    fn imr_ended(&self, arguments: &[&str]) -> common::Ended {
        let (verb, rest) = arguments.split_first().unwrap();
        run(&[&["imr", verb, "--service", &self.service.url], rest].concat())
    }

    /// Runs `isorb imr`, which is refused.
    fn refused(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.imr_ended(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {out}{error}");
        error
    }

    /// Registers a naming service of this name.
    fn add_naming(&self, name: &str, options: &[&str]) {
        let (store, reference) = (self.path(&format!("{name}.redb")), self.path(&format!("{name}.ior")));
        let server = ["--", ISORB, "naming", "--port", "0", "--store", &store, "--ior-file", &reference];
        self.imr(&[&["add", name], options, &server[..]].concat());
    }

    /// Registers a shell script of this name.
    fn add_script(&self, name: &str, options: &[&str], script: &str) {
        self.imr(&[&["add", name], options, &["--", "/bin/sh", "-c", script, "sh"][..]].concat());
    }

    fn path(&self, name: &str) -> String {
        self.folder.file(name).to_str().unwrap().to_owned()
    }

    fn reference(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.file(format!("{name}.ior"))).unwrap().trim().to_owned()
    }

    fn show(&self, name: &str) -> Value {
        serde_json::from_str(&self.imr(&["show", "--json", name])).unwrap()
    }

    fn process(&self, name: &str) -> u32 {
        self.show(name)["process"].as_u64().unwrap_or(0) as u32
    }

    fn repository(&self, orb: &Orb) -> RepositoryRef {
        orb.resolve(&self.service.url).unwrap()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // Servers go on without a repository.
        let list = self.imr_ended(&["ls"]).1;
        let names = list.lines().filter_map(|line| line.split('\t').next());
        names.for_each(|name| _ = self.imr_ended(&["stop", name]));
    }
}

fn signal(id: u32, name: &str) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

/// Whether a process runs; one that no parent awaits may stay as a zombie.
fn exists(process: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    line.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Kills a process. Its connections are closed afterwards.
fn kill(process: u32) {
    signal(process, "-KILL");
    wait_until("the end of the process", || !exists(process));
}

fn client() -> Orb {
    Orb::with_config(Config::default()).unwrap()
}

fn name(id: &str) -> Vec<NameComponent> {
    vec![NameComponent { id: id.into(), kind: String::new() }]
}

/// A reference with this key at the repository, of a server that has never run.
fn made_up(port: u16, orb: &Orb, server: &str) -> NamingContextRef {
    let octets: String = server.bytes().map(|octet| format!("%{octet:02x}")).collect();
    let length = server.len();
    let key = format!("iso%03%00%00%00%{length:02x}{octets}%00%00%00%08%00%06namingroot");
    let url = format!("corbaloc::1.2@127.0.0.1:{port}/{key}");
    orb.string_to_object(&url).unwrap().unchecked_narrow()
}

/// The kind and minor code of a call.
fn outcome(context: &NamingContextRef) -> (Kind, u32) {
    let exception = context.list(0).expect_err("the server does not serve");
    (exception.kind, exception.minor)
}

/// The number of names, by a client that may not have noticed yet that the server has ended. Where
/// it has not, it cannot know whether the request was served, and the caller has to repeat it, for
/// each connection that it has.
fn number(context: &NamingContextRef) -> usize {
    let unsure = |e: &isorb::SystemException| (e.kind, e.completed) == (Kind::CommFailure, Completion::Maybe);
    let mut list = context.list(10);
    for _ in 0..4 {
        if list.as_ref().is_err_and(unsure) {
            list = context.list(10);
        }
    }
    list.unwrap().0.len()
}

#[test]
fn a_reference_survives_the_end_and_the_move_of_its_server() {
    let repository = Repository::start(&[]);
    repository.add_naming("names", &[]);
    repository.imr(&["start", "names"]);
    let orb = client();
    let context: NamingContextRef = orb.resolve(&repository.reference("names")).unwrap();
    context.bind(&name("a"), context.object()).unwrap();
    let first = repository.process("names");
    let direct = context.object().address().unwrap();

    kill(first);
    // The call begins again by itself: at the repository, which starts the server.
    assert_eq!(number(&context), 1);
    let shown = repository.show("names");
    assert_eq!((&shown["state"], &shown["starts"]), (&"running".into(), &2.into()));
    assert_eq!(shown["last_failure"], "ended by signal 9");
    assert_ne!(repository.process("names"), first);
    // What the server stored leads to the repository, too.
    let stored: NamingContextRef = context.resolve(&name("a")).unwrap().unwrap().unchecked_narrow();
    assert_eq!(stored.object().ior(), context.object().ior());
    assert_eq!(number(&stored), 1);
    assert!(direct.ends_with(&repository.port.to_string()), "{direct}: the reference names the repository");

    // In order: the next call starts it, unless it is manual.
    repository.imr(&["stop", "names"]);
    assert_eq!(repository.show("names")["state"], "stopped");
    assert_eq!(repository.show("names")["process"], Value::Null, "0 is no process");
    let text = repository.imr(&["show", "names"]);
    assert!(text.contains("process        none\n"), "{text}");
    assert_eq!(number(&context), 1);
    repository.imr(&["change", "names", "--activation", "manual"]);
    repository.imr(&["stop", "names"]);
    assert_eq!(outcome(&context), (Kind::Transient, minor::TRANSIENT_SERVER_STOPPED));
    repository.imr(&["remove", "names"]);
    assert_eq!(outcome(&context).0, Kind::ObjectNotExist);
    assert!(repository.refused(&["show", "names"]).contains("no server names"));
}

#[test]
fn many_clients_start_a_server_once() {
    let repository = Repository::start(&[]);
    repository.add_naming("names", &[]);
    let port = repository.port;
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(move || {
                let orb = client();
                assert!(made_up(port, &orb, "names").list(10).unwrap().0.is_empty());
            });
        }
    });
    assert_eq!(repository.show("names")["starts"], 1);
    // Objects that it does not have: a POA that is not there, and an id that only the server knows.
    let orb = client();
    let root = made_up(repository.port, &orb, "names");
    let key = root.object().ior().iiop_profiles().flatten().next().unwrap().key;
    for octets in [8, 4] {
        let none = [&key[..key.len() - octets], b"none"].concat();
        let none: String = none.iter().map(|octet| format!("%{octet:02x}")).collect();
        let url = format!("corbaloc::1.2@127.0.0.1:{}/{none}", repository.port);
        let none: NamingContextRef = orb.string_to_object(&url).unwrap().unchecked_narrow();
        assert_eq!(outcome(&none).0, Kind::ObjectNotExist, "{octets}");
    }
}

#[test]
fn servers_and_registrations_survive_the_repository() {
    let mut repository = Repository::start(&[]);
    repository.add_naming("names", &[]);
    let gate = repository.path("gate");
    let (store, reference) = (repository.path("slow.redb"), repository.path("slow.ior"));
    let script = format!(
        "while [ ! -e {gate} ]; do sleep 0.05; done; exec {ISORB} naming --port 0 --store {store} --ior-file {reference} \"$@\""
    );
    repository.add_script("slow", &["--start-timeout", "1m"], &script);
    let orb = client();
    let names = made_up(repository.port, &orb, "names");
    names.bind(&name("a"), names.object()).unwrap();
    let process = repository.process("names");
    // Killed between the start of a server and its registration.
    std::thread::scope(|scope| {
        let port = repository.port;
        let waiting = scope.spawn(move || made_up(port, &client(), "slow").list(10));
        wait_until("the server is started", || repository.process("slow") != 0);
        signal(repository.service.id(), "-KILL");
        assert!(waiting.join().unwrap().is_err());
    });
    let slow = repository.folder.file("gate");
    repository.restart();
    assert_eq!(repository.show("names")["state"], "running");
    let starting = repository.process("slow");
    assert_eq!((&*repository.show("slow")["state"].to_string(), exists(starting)), ("\"starting\"", true));
    std::fs::write(slow, "").unwrap();
    assert!(made_up(repository.port, &client(), "slow").list(10).unwrap().0.is_empty());
    assert_eq!(repository.process("slow"), starting);

    assert_eq!(made_up(repository.port, &client(), "names").list(10).unwrap().0.len(), 1);
    assert_eq!(number(&names), 1);
    assert_eq!(
        (repository.process("names"), repository.show("names")["starts"].as_u64()),
        (process, Some(0))
    );
    // It is no child of this repository, which notices its end all the same.
    kill(process);
    assert_eq!(number(&names), 1);
    assert_ne!(repository.process("names"), process);
    repository.imr(&["stop", "slow"]);
    wait_until("the end of the process", || !exists(starting));
}

#[test]
fn what_does_not_start_is_said() {
    let repository = Repository::start(&["--max-waiting", "1"]);
    let orb = client();
    let start = |kind, code| (Kind::Transient == kind).then_some(code);
    let of = |server: &str| {
        let (kind, code) = outcome(&made_up(repository.port, &orb, server));
        start(kind, code).unwrap_or_else(|| panic!("{server}: {kind:?}"))
    };
    // It goes away after it was registered.
    let program = repository.path("program");
    std::fs::copy("/bin/sh", &program).unwrap();
    repository.imr(&["add", "gone", "--", &program]);
    std::fs::remove_file(&program).unwrap();
    assert_eq!(of("gone"), minor::TRANSIENT_SERVER_START);
    assert!(repository.refused(&["start", "gone"]).contains(&program));

    repository.add_script("crash", &["--restart-limit", "2/1h"], "exit 3");
    assert_eq!([of("crash"), of("crash")], [minor::TRANSIENT_SERVER_START; 2]);
    assert_eq!(of("crash"), minor::TRANSIENT_SERVER_RESTARTS);
    let sentence = repository.refused(&["start", "crash"]);
    assert!(sentence.contains("exit status 3 before it registered"), "{sentence}");

    repository.add_script("silent", &["--start-timeout", "300ms"], "exec sleep 1000");
    let sentence = repository.refused(&["start", "silent"]);
    assert!(sentence.contains("--start-timeout"), "{sentence}");
    assert_eq!(repository.show("silent")["state"], "stopped");

    // One of two waits, and the other one may not.
    repository.add_script("slow", &["--start-timeout", "1m"], "exec sleep 1000");
    let (said, codes) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let (port, said) = (repository.port, said.clone());
        std::thread::spawn(move || said.send(outcome(&made_up(port, &client(), "slow"))));
    }
    assert_eq!(codes.recv().unwrap(), (Kind::Transient, minor::TRANSIENT_SERVER_WAITING));
    repository.imr(&["stop", "slow"]);
    assert_eq!(codes.recv().unwrap(), (Kind::Transient, minor::TRANSIENT_SERVER_START));
    for (arguments, message) in [
        (&["add", "x", "--", "/no/such/program"][..], "no file"),
        (&["add", "x", "--", "no-such-program"], "PATH"),
        (&["add", "x", "--folder", "/no/such", "--", "/bin/sh"], "no folder"),
        (&["add", "a/b", "--", "/bin/sh"], "without control characters"),
        (&["add", "crash", "--", "/bin/sh"], "isorb imr change"),
        (&["add", "x", "--activation", "normal"], "make it manual"),
        (&["change", "x"], "no server x"),
        (&["stop", "x"], "no server x"),
    ] {
        let error = repository.refused(arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let hostile = ["", "no-such-server", "crash\0", "\u{1b}[31m"];
    for server in hostile {
        assert_eq!(outcome(&made_up(repository.port, &orb, server)).0, Kind::ObjectNotExist, "{server:?}");
    }
}

#[test]
fn a_frozen_server_does_not_hold_its_clients() {
    let repository = Repository::start(&["--answer-timeout", "300ms"]);
    repository.add_naming("names", &[]);
    let orb = client();
    assert!(made_up(repository.port, &orb, "names").list(10).unwrap().0.is_empty());
    let process = repository.process("names");
    freeze(process);
    let fresh = client();
    let context = made_up(repository.port, &fresh, "names");
    assert_eq!(outcome(&context), (Kind::Transient, minor::TRANSIENT_SERVER_SILENT));
    resume(process);
    // It is the same process.
    wait_until("the server answers", || context.list(10).is_ok());
    assert_eq!(repository.process("names"), process);
    freeze(process);
    repository.imr(&["stop", "names"]);
    assert!(!exists(process));
    assert_eq!(number(&context), 0);
}

#[test]
fn a_server_that_others_start_moves() {
    let repository = Repository::start(&[]);
    repository.imr(&["add", "names"]);
    assert!(repository.refused(&["start", "names"]).contains("no program"));
    let (store, reference) = (repository.path("names.redb"), repository.path("names.ior"));
    let serve = || {
        Service::start(&[
            "naming",
            "--port",
            "0",
            "--store",
            &store,
            "--ior-file",
            &reference,
            "-ORBServerName",
            "names",
            "-ORBImplementationRepository",
            &repository.service.url,
        ])
    };
    let orb = client();
    let context = made_up(repository.port, &orb, "names");
    assert_eq!(outcome(&context), (Kind::Transient, minor::TRANSIENT_SERVER_STOPPED));
    let first = serve();
    wait_until("the server has registered", || context.bind(&name("a"), context.object()).is_ok());
    assert!(repository.refused(&["stop", "names"]).contains("not started by the repository"));
    // Its connection is not closed in order, and its port is another one afterwards.
    kill(first.id());
    drop(first);
    let _ = context.list(0);
    assert_eq!(outcome(&context), (Kind::Transient, minor::TRANSIENT_SERVER_STOPPED));
    let _second = serve();
    wait_until("the server has registered", || context.list(10).is_ok_and(|list| list.0.len() == 1));
}

#[test]
fn no_other_process_is_the_server() {
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml");
    // All clients read, as servers with a token do; none binds a name or administers.
    std::fs::write(&policy, "[roles.all]\nmembers = [\"anyone\"]\nmay = [\"read\"]\n").unwrap();
    let repository = Repository::start(&[]);
    repository.add_naming("names", &[]);
    let orb = client();
    let admin = repository.repository(&orb);
    let fake: ServerRef = orb.string_to_object("corbaloc::1.2@127.0.0.1:9/x").unwrap().unchecked_narrow();
    let kind = |token, name| admin.server_running(name, token, &fake).unwrap_err().kind;
    assert_eq!(kind("", "unknown"), Kind::BadParam);
    repository.imr(&["start", "names"]);
    assert_eq!(kind("", "names"), Kind::BadInvOrder);
    assert_eq!(kind("0123456789abcdef0123456789abcdef", "names"), Kind::BadInvOrder);
    assert!(admin.server_left("names", "wrong").is_ok());
    assert_eq!(repository.show("names")["state"], "running", "another one has left");
    assert!(made_up(repository.port, &orb, "names").list(10).is_ok());

    let closed = Service::of(
        isorb(&["imr", "serve", "--memory", "--port", "0", "--access-policy", policy.to_str().unwrap()])
            .current_dir(folder.path()),
    );
    let (code, _, error) = ended(isorb(&["imr", "add", "--service", &closed.url, "x", "--", "/bin/sh"]));
    assert!(code == Some(1) && error.contains("NO_PERMISSION"), "{error}");
    assert_eq!(run(&["imr", "ls", "--service", &closed.url]).0, Some(0));
}

/// A client of another ORB that calls, waits for a line, and calls again by the same reference.
fn calls_before_and_after_a_move(command: &mut Command, repository: &Repository) {
    let mut client = Process::start(command.arg(repository.reference("names")));
    for round in 0..3 {
        assert_eq!(client.expect_line("called"), "a", "round {round}");
        kill(repository.process("names"));
        client.write_line("again");
    }
    client.expect_line("called");
    client.discard_output();
    drop(client);
}

fn with_names() -> Repository {
    let repository = Repository::start(&[]);
    repository.add_naming("names", &["--restart-limit", "100/1h"]);
    repository.imr(&["start", "names"]);
    let context: NamingContextRef = client().resolve(&repository.reference("names")).unwrap();
    context.bind(&name("a"), context.object()).unwrap();
    repository
}

#[test]
fn omniorb_follows_and_returns() {
    if !isorb_testkit::has_omniorb() {
        return;
    }
    let repository = with_names();
    let program = repository.path("client");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/moved.cc");
    let mut command = Command::new("g++");
    command.arg("-o").arg(&program).arg(source).args(["-lomniORB4", "-lomnithread", "-lpthread"]);
    if isorb_testkit::compiles(&mut command) {
        calls_before_and_after_a_move(&mut Command::new(program), &repository);
    }
}

#[test]
fn jacorb_follows_and_returns() {
    let built = std::env::var_os("ISORB_INTEROP_BUILD").map(std::path::PathBuf::from);
    let built = built.unwrap_or_else(|| isorb_testkit::repository().join("interop/.build"));
    let jars = built.join("jacorb/lib");
    if !jars.join("jacorb-3.9.jar").exists() {
        eprintln!("skipped: JacORB is not installed (interop/setup.sh jacorb)");
        return;
    }
    let repository = with_names();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/Moved.java");
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{}/*", jars.display())).arg(source);
    calls_before_and_after_a_move(&mut command, &repository);
}
