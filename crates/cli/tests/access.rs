//! The rights of clients at a service's process: policies, certificates, users.

mod common;

use common::{Ended, ISORB, Service, ended, events, get, isorb, run};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_testkit::{Process, TempFolder, fill_disk, on_small_disk, wait_until};
use isorb_tls::testing::Authority;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const OBJECT: &str = "corbaloc::1.2@127.0.0.1:9/thing";

fn signal(service: &Service, name: &str) {
    let sent = Command::new("kill").args([name, &service.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A naming service over TLS with a policy, and its folder with an authority.
struct Guarded {
    folder: TempFolder,
    authority: Authority,
    service: Service,
}

const POLICY: &str = "[roles.lab]
members = ['certificate:lab']
may = ['read', 'bind:lab*']

[roles.viewers]
members = ['certificate:viewer']
may = ['read']
";

impl Guarded {
    fn start() -> Guarded {
        let folder = TempFolder::new();
        let authority = Authority::at(&folder.file("ca")).unwrap();
        let policy = folder.text("policy.toml");
        write(&policy, POLICY);
        let tls = Guarded::files(&authority, "server");
        let audit = folder.text("audit.log");
        let service = Service::of(
            isorb(&[
                "naming",
                "--memory",
                "--port",
                "0",
                "--tls",
                &tls,
                "--access-policy",
                &policy,
                "--audit",
                &audit,
            ])
            .stderr(std::fs::File::create(folder.file("log")).unwrap()),
        );
        Guarded { folder, authority, service }
    }

    fn files(authority: &Authority, name: &str) -> String {
        authority.sign(name).unwrap();
        let file = |name: &str| authority.folder().join(name).display().to_string();
        [file(&format!("{name}.pem")), file(&format!("{name}.key")), file("authority.pem")].join(",")
    }

    /// `isorb name` with the certificate of `name`.
    fn name(&self, name: &str, args: &[&str]) -> Ended {
        let tls = Guarded::files(&self.authority, name);
        run(&[&["name", "--tls", &tls, "--ns", &self.service.url], args].concat())
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.file(file)).unwrap()
    }
}

fn write(file: &str, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_policy_grants_the_binding_of_names() {
    let guarded = Guarded::start();
    let (code, _, error) = guarded.name("lab", &["bind", "lab1", OBJECT]);
    assert_eq!(code, Some(0), "{error}");
    for (client, args) in [
        ("lab", &["bind", "plant", OBJECT][..]),
        ("viewer", &["bind", "lab2", OBJECT]),
        ("viewer", &["unbind", "lab1"]),
        ("stranger", &["resolve", "lab1"]),
        ("stranger", &["ls"]),
    ] {
        let (code, _, error) = guarded.name(client, args);
        assert_eq!(code, Some(1), "{client} {args:?}");
        assert!(error.contains("NO_PERMISSION") && error.contains("policy.toml"), "{error}");
    }
    assert_eq!(guarded.name("viewer", &["resolve", "lab1"]).0, Some(0));
    // Without a certificate no client gets in.
    assert_ne!(run(&["name", "--ns", &guarded.service.url, "ls"]).0, Some(0));
    let audit = guarded.text("audit.log");
    assert!(audit.contains("\"lab\" at 127.0.0.1:") && audit.contains(": bind \"lab1\"\n"), "{audit}");
    assert!(!audit.contains("plant") && !audit.contains("resolve"), "{audit}");
    let mode = std::fs::metadata(guarded.folder.file("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The TCP ports at which a process listens, of IPv4.
fn listening_ports(process: u32) -> Vec<u16> {
    let held: Vec<String> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()?.into_os_string().into_string().ok())
        .collect();
    let sockets = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // State 0A is LISTEN; the tenth word is the inode.
        let listens = words[3] == "0A" && held.contains(&format!("socket:[{}]", words[9]));
        listens.then(|| u16::from_str_radix(words[1].rsplit_once(':').unwrap().1, 16).unwrap())
    };
    sockets.lines().skip(1).filter_map(port).collect()
}

/// Whether a GIOP message without TLS is answered at this port.
fn answers_plainly(port: u16) -> bool {
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    // A LocateRequest for the key `x`.
    client.write_all(b"GIOP\x01\x02\x01\x03\x0d\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0x").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // TLS ends it by an alert or a reset.
    let _ = client.read_to_end(&mut answer);
    answer.starts_with(b"GIOP")
}

#[test]
fn a_service_over_tls_has_no_port_without_it() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let tls = Guarded::files(&authority, "server");
    let socket = folder.text("socket");
    let services: [&[&str]; 7] = [
        &["naming", "--memory", "--port", "0"],
        &["log-service", "--memory", "--port", "0"],
        &["imr", "serve", "--memory", "--port", "0"],
        &["event-channel", "--id", "1", "--port", "0"],
        &["scheduler", "--port", "0"],
        &["memory-coordinator", "--memory", "--port", "0"],
        &["memory-server", "--socket", &socket],
    ];
    let over = |tls: &[&str], service: &[&str]| {
        let service = Service::start(&[service, tls].concat());
        let ports = listening_ports(service.id());
        assert!(!ports.is_empty());
        ports.into_iter().filter(|port| answers_plainly(*port)).count()
    };
    for service in services {
        assert_eq!(over(&["--tls", &tls], service), 0, "{service:?}");
    }
    assert!(over(&[], services[0]) > 0, "the control");
}

#[test]
fn channels_exchange_events_over_tls() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let tls = Guarded::files(&authority, "server");
    let member = |more: &[&str]| {
        let arguments = [&["event-channel", "--port", "0", "--tls", &tls], more].concat();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.file("log")).unwrap();
        Service::with_line(isorb(&arguments).stderr(log), "FEDERATION")
    };
    let (near, entry) = member(&["--id", "1"]);
    let log = || std::fs::read_to_string(folder.file("log")).unwrap();
    wait_until("it says that levels share a port", || log().contains("share the port over TLS"));
    let (far, _) = member(&["--id", "2", "--join", &entry]);
    let watch = ["event", "watch", &far.url, "--types", "20", "--count", "1", "--tls", &tls];
    let mut watch = Process::start(&mut isorb(&watch));
    let mut watched = None;
    wait_until("an event comes over", || {
        assert_eq!(run(&["event", "push", &near.url, "20", "high", "--tls", &tls]).0, Some(0));
        watched = watch.ended();
        watched.is_some()
    });
    assert!(watched.unwrap().success());
    let refused = run(&["event-channel", "--id", "3", "--mark", "--tls", &tls]);
    assert!(refused.0 == Some(2) && refused.2.contains("--mark"), "{refused:?}");
}

#[test]
fn a_revoked_certificate_is_refused_at_once() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let list = authority.revoke(&[]).unwrap().display().to_string();
    let tls = format!("{},{list}", Guarded::files(&authority, "server"));
    let service = Service::start(&["naming", "--memory", "--port", "0", "--tls", &tls]);
    let clients = ["lab", "viewer"].map(|name| Guarded::files(&authority, name));
    let ls = |tls: &str| run(&["name", "--tls", tls, "--ns", &service.url, "ls"]).0;
    assert_eq!(clients.each_ref().map(|tls| ls(tls)), [Some(0), Some(0)]);
    authority.revoke(&["lab"]).unwrap();
    assert_eq!(clients.each_ref().map(|tls| ls(tls)), [Some(1), Some(0)]);
    // A client with the list does not talk to a server that is in it.
    authority.revoke(&["server"]).unwrap();
    assert_eq!((ls(&format!("{},{list}", clients[1])), ls(&clients[1])), (Some(1), Some(0)));
}

#[test]
fn a_policy_is_read_again_and_one_with_errors_is_refused() {
    let guarded = Guarded::start();
    let policy = guarded.folder.text("policy.toml");
    write(&policy, &POLICY.replace("'bind:lab*'", "'bnd:lab*'"));
    signal(&guarded.service, "-HUP");
    wait_until("the error is logged", || {
        guarded.text("log").contains("policy.toml:3:16: there is no permission")
    });
    assert!(guarded.text("log").contains("3 | may = ['read', 'bnd:lab*']"));
    assert_eq!(guarded.name("lab", &["bind", "lab1", OBJECT]).0, Some(0), "the policy before is in force");
    write(&policy, &POLICY.replace("'bind:lab*'", "'bind:plant*'"));
    signal(&guarded.service, "-HUP");
    wait_until("it is in force", || guarded.text("audit.log").matches("is in force").count() == 2);
    assert_eq!(guarded.name("lab", &["bind", "lab2", OBJECT]).0, Some(1));
    assert_eq!(guarded.name("lab", &["bind", "plant", OBJECT]).0, Some(0));
}

#[test]
fn a_service_does_not_start_with_a_wrong_policy() {
    let folder = TempFolder::new();
    let policy = folder.text("policy.toml");
    write(&policy, "[roles.a]\nmembers = ['everybody']\nmay = []\n");
    write(&folder.text("plant.idl"), "interface Pump {};\n");
    for service in [
        &["naming", "--memory"][..],
        &["event-channel"],
        &["scheduler"],
        &["memory-coordinator", "--memory"],
        &["memory-server", "--socket", "s"],
        &["log-service", "--memory"],
        &["imr", "serve", "--memory"],
        &["ifr", "--idl", "plant.idl"],
    ] {
        let args = [service, &["--access-policy", &policy]].concat();
        let (code, out, error) = ended(isorb(&args).current_dir(folder.path()));
        assert_eq!((code, &*out), (Some(1), ""), "{args:?}: {error}");
        assert!(error.contains("policy.toml:2:12: ") && error.contains("^^^^^^^^^^^"), "{args:?}: {error}");
    }
    write(&policy, POLICY);
    std::fs::set_permissions(&policy, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (_, _, error) = run(&["naming", "--memory", "--port", "0", "--access-policy", &policy]);
    assert!(error.contains("chmod 600"), "{error}");
}

/// Runs `isorb` as another user.
fn as_another_user(folder: &TempFolder, args: &[&str]) -> Option<Ended> {
    const OTHER: u32 = 65534;
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        println!("skipped: only root can run a program as another user");
        return None;
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.file("isorb");
    if !program.exists() {
        std::fs::copy(ISORB, &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(args).uid(OTHER).gid(OTHER).current_dir("/").stdin(Stdio::null());
    Some(ended(command))
}

#[test]
fn without_a_policy_operators_are_of_the_services_user() {
    let folder = TempFolder::new();
    let trace = folder.text("trace");
    for open in [false, true] {
        let args = ["event-channel", "--real-time", "off", "--trace", "--open"];
        let channel = Service::start(&args[..if open { 5 } else { 4 }]);
        let (code, _, error) = run(&["event-control", &channel.url, "--trace", &trace]);
        assert_eq!(code, Some(0), "the own user over loopback: {error}");
        let wanted = ["event-control", &channel.url, "--configuration", "filtering"];
        let Some((code, _, error)) = as_another_user(&folder, &wanted) else { return };
        assert_eq!(code, Some(if open { 0 } else { 1 }), "{error}");
        assert_eq!(error.contains("NO_PERMISSION") && error.contains("--access-policy"), !open, "{error}");
    }
}

#[test]
fn a_supplier_is_held_to_its_types() {
    let folder = TempFolder::new();
    let policy = folder.text("policy.toml");
    write(&policy, "[roles.all]\nmembers = ['same-user']\nmay = ['read', 'supply:16..31']\n");
    let service = Service::start(&["event-channel", "--real-time", "off", "--access-policy", &policy]);
    let orb = events::orb();
    let channel: admin::EventChannelRef = orb.resolve(&service.url).unwrap();
    let [allowed, other] = [16, 40].map(|number| events::consume(&orb, &channel, number));
    let supplier = events::supply(&channel);
    supplier.push(&[events::event(40, 1)][..]).unwrap();
    supplier.push(&[events::event(16, 2)][..]).unwrap();
    wait_until("the allowed event arrives", || allowed.times() == [2]);
    assert_eq!(other.times(), [0u64; 0]);
    let publications =
        vec![admin::Publication { event: events::event(40, 0), dependency_info: Default::default() }];
    let announcing = channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    let qos = admin::SupplierQOS { publications, ..Default::default() };
    let refused = announcing.connect_push_supplier(None::<&comm::PushSupplierRef>, &qos).unwrap_err();
    assert!(format!("{refused}").contains("supply"), "{refused}");
    // Nor may it end the channel.
    assert_eq!(channel.destroy().unwrap_err().kind, isorb::Kind::NoPermission);
}

#[test]
fn a_unix_socket_names_the_user() {
    let folder = TempFolder::new();
    let (socket, ior) = (folder.text("s"), folder.text("ior"));
    let policy = folder.text("policy.toml");
    write(&policy, "[roles.all]\nmembers = ['same-user']\nmay = ['read', 'bind']\n");
    let args = [
        "naming",
        "--memory",
        "--port",
        "0",
        "--unix",
        &socket,
        "--access-policy",
        &policy,
        "--ior-file",
        &ior,
    ];
    let _naming = Service::start(&args);
    let (code, _, error) = run(&["name", "--ns", &format!("file://{ior}"), "bind", "x", OBJECT]);
    assert_eq!(code, Some(0), "{error}");
    assert!(std::path::Path::new(&socket).exists());
}

#[test]
fn a_service_that_strangers_reach_says_so() {
    let folder = TempFolder::new();
    let log = std::fs::File::create(folder.file("log")).unwrap();
    let args = ["naming", "--memory", "--host", "0.0.0.0", "--port", "0", "-ORBPublish", "127.0.0.1"];
    let _naming = Service::of(isorb(&args).stderr(log));
    wait_until("it says so", || {
        let log = std::fs::read_to_string(folder.file("log")).unwrap();
        log.contains("0.0.0.0:0 listens beyond this host without --tls and --access-policy")
    });
}

/// A change without its record is not made. Reads go on, and changes are taken again by themselves.
#[test]
fn changes_are_refused_while_the_audit_file_has_no_space() {
    on_small_disk("changes_are_refused_while_the_audit_file_has_no_space", |disk| {
        let (folder, audit) = (TempFolder::new(), disk.join("audit"));
        let mut command = isorb(&["naming", "--memory", "--port", "0", "--metrics", "0", "--audit"]);
        command.arg(&audit).stderr(std::fs::File::create(folder.file("log")).unwrap());
        let (service, line) = Service::with_line(&mut command, "METRICS");
        let metrics = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
        let name = |args: &[&str]| run(&[&["name", "--ns", &service.url], args].concat());
        let recorded = || std::fs::read_to_string(&audit).unwrap();
        assert_eq!(name(&["bind", "first", OBJECT]).0, Some(0));
        let filling = fill_disk(disk);
        // Until the last page of the file is full.
        let (refused, error) = (0..200)
            .find_map(|n| match name(&["bind", &format!("n{n}"), OBJECT]) {
                (Some(0), ..) => None,
                (_, _, error) => Some((n, error)),
            })
            .expect("the disk is full");
        assert!(error.contains("NO_RESOURCES") && error.contains("--audit"), "{error}");
        assert_eq!(name(&["resolve", "first"]).0, Some(0), "reads go on");
        assert_ne!(name(&["resolve", &format!("n{refused}")]).0, Some(0), "it was made without a record");
        let text = get(metrics, "/metrics");
        assert!(text.contains("isorb_audit_lost_total 1\n"), "{text}");

        filling.set_len(0).unwrap();
        assert_eq!(name(&["bind", "last", OBJECT]).0, Some(0));
        let records = recorded();
        let of =
            |name: &str| records.lines().filter(|line| line.ends_with(&format!("bind \"{name}\""))).count();
        let bound = (0..refused).map(|n| format!("n{n}")).chain(["first".into(), "last".into()]);
        bound.for_each(|name| assert_eq!(of(&name), 1, "{name}: {records}"));
        wait_until("the log says so", || {
            let log = std::fs::read_to_string(folder.file("log")).unwrap();
            log.contains("an audit record cannot be written") && log.contains("are written again")
        });
    });
}
