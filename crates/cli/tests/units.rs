//! The services as their shipped unit files start them: with the command, the environment, the
//! folders and the notifications of systemd, with TLS and a policy.

mod common;

use common::{Ended, ISORB, Service, get, run};
use isorb::{Config, Orb};
use isorb_ifr::corba::RepositoryRef;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use isorb_sched_service::rtec_scheduler::scheduler::LookupError;
use isorb_testkit::{TempFolder, repository, wait_for, wait_until};
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const UNITS: [&str; 8] = [
    "naming",
    "event-channel",
    "scheduler",
    "memory-coordinator",
    "memory-server",
    "log-service",
    "imr",
    "ifr",
];

/// A unit file, by keys of its section `[Service]`.
struct Unit {
    name: &'static str,
    settings: Vec<(String, String)>,
}

impl Unit {
    fn read(name: &'static str) -> Unit {
        let file = repository().join(format!("packaging/systemd/isorb-{name}.service"));
        let text = std::fs::read_to_string(file).unwrap();
        let service = text.split("[Service]\n").nth(1).unwrap().split("\n[").next().unwrap();
        let lines = service.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let settings = lines.map(|line| {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{name}: {line}"));
            (key.to_owned(), value.to_owned())
        });
        Unit { name, settings: settings.collect() }
    }

    fn get(&self, key: &str) -> &str {
        let mut found = self.settings.iter().filter(|(name, _)| name == key);
        let (_, value) = found.next().unwrap_or_else(|| panic!("{} has no {key}", self.name));
        assert!(found.next().is_none(), "{} has {key} twice", self.name);
        value
    }
}

/// What systemd does for a unit, with its absolute folders below another one.
struct Manager {
    unit: Unit,
    root: TempFolder,
    socket: UnixDatagram,
}

impl Manager {
    fn new(unit: Unit) -> Manager {
        let root = TempFolder::new();
        let socket = UnixDatagram::bind(root.file("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let manager = Manager { unit, root, socket };
        for (key, below) in FOLDERS {
            let folder = manager.folder(key, below);
            std::fs::create_dir_all(&folder).unwrap();
            let mode = u32::from_str_radix(manager.unit.get(&format!("{key}Mode")), 8).unwrap();
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        manager
    }

    fn folder(&self, key: &str, below: &str) -> PathBuf {
        self.at(below).join(self.unit.get(key))
    }

    /// Where a file with an absolute path lies.
    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Writes the environment file that the unit names.
    fn set_options(&self, options: &str) {
        let file = self.unit.get("EnvironmentFile").strip_prefix('-').unwrap();
        let file = self.at(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("OPTIONS={options}\n")).unwrap();
    }

    /// The words of a command line of the unit: `$NAME` stands for several words, `${NAME}` for a
    /// part of one.
    fn words(&self, key: &str, variables: &[(&str, String)]) -> Vec<String> {
        let words = self.unit.get(key).split_whitespace().flat_map(|word| {
            match variables.iter().find(|(name, _)| word == format!("${name}")) {
                Some((_, value)) => value.split_whitespace().map(str::to_owned).collect(),
                None => {
                    let whole = variables.iter().fold(word.to_owned(), |word, (name, value)| {
                        word.replace(&format!("${{{name}}}"), value)
                    });
                    assert!(
                        !whole.contains('$'),
                        "{}: {key} has {whole}, which nothing sets",
                        self.unit.name
                    );
                    vec![whole]
                }
            }
        });
        words.collect()
    }

    /// Starts the unit, and waits until it is ready. Returns the address of its metrics, too.
    fn start(&self) -> (Service, String) {
        let environment = self.at(self.unit.get("EnvironmentFile").strip_prefix('-').unwrap());
        let environment = std::fs::read_to_string(environment).unwrap();
        let options = environment.trim().strip_prefix("OPTIONS=").unwrap();
        let mut variables: Vec<_> = FOLDERS
            .iter()
            .map(|(key, below)| {
                let name = match *key {
                    "StateDirectory" => "STATE_DIRECTORY",
                    "RuntimeDirectory" => "RUNTIME_DIRECTORY",
                    _ => "LOGS_DIRECTORY",
                };
                (name, self.folder(key, below).display().to_string())
            })
            .collect();
        variables.push(("OPTIONS", options.to_owned()));
        let mut words = self.words("ExecStart", &variables);
        assert_eq!(words.remove(0), "/usr/bin/isorb");
        let seconds: u64 = self.unit.get("WatchdogSec").parse().unwrap();
        let (mask, files) = (self.unit.get("UMask"), self.unit.get("LimitNOFILE"));
        let mut command = Command::new("/bin/sh");
        // The watchdog is for the process with this number.
        let set_up = format!("umask {mask}; ulimit -n {files}; WATCHDOG_PID=$$ exec \"$@\"");
        command.args(["-c", &set_up, "sh", ISORB]).args(words).env_clear().envs(variables);
        command.env("NOTIFY_SOCKET", self.root.file("notify"));
        command.env("WATCHDOG_USEC", (seconds * 1_000_000).to_string());
        command.current_dir(self.at(self.unit.get("WorkingDirectory")));
        command.stderr(std::fs::File::create(self.root.file("stderr")).unwrap());
        let (service, line) = Service::with_line(&mut command, "METRICS");
        let metrics = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
        self.await_notice("READY=1");
        self.await_notice("WATCHDOG=1");
        (service, metrics.to_owned())
    }

    fn await_notice(&self, wanted: &str) {
        wait_until(wanted, || {
            let mut octets = [0; 256];
            let n = self.socket.recv(&mut octets).unwrap();
            octets[..n].split(|octet| *octet == b'\n').any(|line| line == wanted.as_bytes())
        });
    }

    fn reload(&self, service: &Service) {
        let id = ("MAINPID", service.id().to_string());
        let words = self.words("ExecReload", &[id]);
        assert!(Command::new(&words[0]).args(&words[1..]).status().unwrap().success());
    }

    /// As `systemctl stop`.
    fn stop(&self, mut service: Service) {
        assert!(Command::new("kill").arg(service.id().to_string()).status().unwrap().success());
        self.await_notice("STOPPING=1");
        assert_eq!(wait_for("the end", || service.ended()).code(), Some(0), "{}", self.unit.name);
    }
}

/// Settings with folders that systemd makes, and where.
const FOLDERS: [(&str, &str); 3] =
    [("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run"), ("LogsDirectory", "/var/log")];

/// Clients with the certificate `lab` have rights, at first no others.
const POLICY: &str =
    "[roles.lab]\nmembers = ['certificate:lab']\nmay = ['read', 'bind:lab*', 'administer']\n";
const LOCAL: &str = "[roles.local]\nmembers = ['same-user']\nmay = ['read']\n";

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The value of `--tls` for a new certificate of this name.
fn tls(authority: &Authority, name: &str) -> String {
    authority.sign(name).unwrap();
    let file = |name: &str| authority.folder().join(name).display().to_string();
    let files = [&format!("{name}.pem"), &format!("{name}.key"), "authority.pem", "revoked.pem"];
    files.map(file).join(",")
}

/// Reads something of the service. The client has this certificate, where the service has TLS.
fn read(unit: &str, url: &str, authority: &Authority, name: &str, folder: &TempFolder) -> Ended {
    let files = tls(authority, name);
    let trace = folder.text("trace");
    match unit {
        "naming" => run(&["name", "--tls", &files, "--ns", url, "ls"]),
        "event-channel" => run(&["event-control", "--tls", &files, url, "--trace", &trace]),
        "memory-coordinator" => run(&["memory", "--tls", &files, "--coordinator", url, "ls"]),
        // Over its unix socket: the kernel names the user.
        "memory-server" => run(&["memory", "--socket", url, "ls"]),
        "log-service" => run(&["log", "--tls", &files, "--service", url, "status"]),
        "imr" => run(&["imr", "ls", "--tls", &files, "--service", url]),
        _ => {
            let files: Vec<_> = files.split(',').map(Path::new).collect();
            let config = TlsConfig::new(files[0], files[1], files[2]);
            let tls = Arc::new(Tls::new(config).unwrap());
            let orb = Orb::builder()
                .config(Config { endpoints: Vec::new(), ..Config::default() })
                .register(|info| Ok(info.add_transport(tls)?))
                .build()
                .unwrap();
            if unit == "ifr" {
                let looked_up = orb.resolve(url).and_then(|ifr: RepositoryRef| ifr.lookup_id("IDL:none:1.0"));
                let error = looked_up.err().map(|error| error.to_string());
                return (Some(i32::from(error.is_some())), String::new(), error.unwrap_or_default());
            }
            let looked_up = orb.resolve(url).map(|scheduler: SchedulerRef| scheduler.lookup("none"));
            match looked_up {
                Ok(Err(LookupError::UNKNOWN_TASK(_))) => (Some(0), String::new(), String::new()),
                Ok(other) => (Some(1), String::new(), format!("{other:?}")),
                Err(error) => (Some(1), String::new(), error.to_string()),
            }
        }
    }
}

#[test]
fn each_unit_serves_with_tls_and_a_policy_until_it_is_stopped() {
    for name in UNITS {
        let manager = Manager::new(Unit::read(name));
        let folder = &manager.root;
        let authority = Authority::at(&folder.file("ca")).unwrap();
        authority.revoke(&[]).unwrap();
        let policy = manager.at("/etc/isorb/access.toml");
        // Tracing and reading are rights of administrators at a channel.
        let local = if name == "event-channel" { LOCAL.replace("read", "administer") } else { LOCAL.into() };
        write(&policy, POLICY);
        let audit = manager.folder("LogsDirectory", "/var/log").join("audit");
        let more = match name {
            // For the libraries of this host, which need no certificate then.
            "memory-server" => {
                let socket = manager.folder("RuntimeDirectory", "/run").join("calls.sock");
                format!("--unix {}", socket.display())
            }
            "event-channel" => "--port 0 --real-time off --trace".into(),
            "ifr" => {
                write(&folder.file("plant.idl"), "interface Pump {};\n");
                format!("--port 0 --idl {}", folder.text("plant.idl"))
            }
            _ => "--port 0".into(),
        };
        manager.set_options(&format!(
            "--tls {} --access-policy {} --audit {} --metrics 0 {more}",
            tls(&authority, "server"),
            policy.display(),
            audit.display()
        ));
        let (service, metrics) = manager.start();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert!(get(&metrics, path).starts_with("HTTP/1.1 200"), "{name}: {path}");
        }
        let (code, _, error) = read(name, &service.url, &authority, "stranger", folder);
        assert!(code == Some(1) && error.contains("NO_PERMISSION"), "{name}: {error}");
        let denied = get(&metrics, "/metrics");
        assert!(!denied.contains("isorb_access_denied_total 0\n"), "{name}: {denied}");
        if name != "memory-server" {
            let (code, _, error) = read(name, &service.url, &authority, "lab", folder);
            assert!(code == Some(0) || name == "scheduler" && !error.contains("NO_PERMISSION"), "{error}");
        }
        // Granted by a reload: the clients are this user's.
        write(&policy, &format!("{POLICY}\n{local}"));
        manager.reload(&service);
        wait_until("the policy is in force", || {
            std::fs::read_to_string(&audit).is_ok_and(|audit| audit.matches("is in force").count() == 2)
        });
        let (_, _, error) = read(name, &service.url, &authority, "stranger", folder);
        assert!(!error.contains("NO_PERMISSION"), "{name}: {error}");
        manager.stop(service);
        // No other user reads what the service wrote.
        for (key, below) in FOLDERS {
            for file in std::fs::read_dir(manager.folder(key, below)).unwrap() {
                let file = file.unwrap();
                let mode = file.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o077, 0, "{name}: {} has {mode:o}", file.path().display());
            }
        }
    }
}

#[test]
fn the_naming_unit_keeps_names_over_kills_and_refuses_what_no_role_grants() {
    let manager = Manager::new(Unit::read("naming"));
    let authority = Authority::at(&manager.root.file("ca")).unwrap();
    authority.revoke(&[]).unwrap();
    let policy = manager.at("/etc/isorb/access.toml");
    write(&policy, POLICY);
    let server = tls(&authority, "server");
    manager.set_options(&format!(
        "--tls {server} --access-policy {} --metrics 127.0.0.1:0 --port 0",
        policy.display()
    ));
    const OBJECT: &str = "corbaloc::1.2@127.0.0.1:9/thing";
    let name = |service: &Service, client: &str, args: &[&str]| {
        run(&[&["name", "--tls", &tls(&authority, client), "--ns", &service.url], args].concat())
    };
    let (service, _) = manager.start();
    let (code, _, error) = name(&service, "lab", &["bind", "lab1", OBJECT]);
    assert_eq!(code, Some(0), "{error}");
    for (client, args) in [("lab", ["bind", "plant", OBJECT]), ("stranger", ["bind", "lab2", OBJECT])] {
        let (code, _, error) = name(&service, client, &args);
        assert!(code == Some(1) && error.contains("NO_PERMISSION"), "{client}: {error}");
    }
    let plain = run(&["name", "--ns", &service.url, "ls"]);
    assert_ne!(plain.0, Some(0), "without a certificate");
    assert_eq!(manager.unit.get("Restart"), "on-failure");
    // Dropped, it is killed.
    drop(service);
    let (service, _) = manager.start();
    assert_eq!(name(&service, "lab", &["resolve", "lab1"]).0, Some(0), "what was acknowledged is there");
    // A key is stolen: its certificate is revoked, and the owner gets a new one.
    let own = tls(&authority, "lab");
    for suffix in ["pem", "key"] {
        let file = |name: &str| authority.folder().join(format!("{name}.{suffix}"));
        std::fs::rename(file("lab"), file("stolen")).unwrap();
    }
    authority.sign("lab").unwrap();
    let stolen = own.replace("lab.", "stolen.");
    let ls = |tls: &str| run(&["name", "--tls", tls, "--ns", &service.url, "ls"]).0;
    assert_eq!([&stolen, &own].map(|tls| ls(tls)), [Some(0), Some(0)]);
    authority.revoke(&["stolen"]).unwrap();
    assert_eq!([&stolen, &own].map(|tls| ls(tls)), [Some(1), Some(0)]);
    manager.stop(service);
}

/// The sandbox limits what a client can do that has taken over a service.
#[test]
fn units_have_no_more_rights_than_they_need() {
    for name in UNITS {
        let unit = Unit::read(name);
        for (key, value) in [
            ("Type", "notify"),
            ("User", "isorb"),
            ("NoNewPrivileges", "yes"),
            ("CapabilityBoundingSet", ""),
            ("ProtectSystem", "strict"),
            ("ProtectHome", "yes"),
            ("PrivateTmp", "yes"),
            ("PrivateDevices", "yes"),
            ("RestrictNamespaces", "yes"),
            ("RestrictSUIDSGID", "yes"),
            ("MemoryDenyWriteExecute", "yes"),
            ("SystemCallFilter", "@system-service"),
            // AF_NETLINK names the users of loopback connections.
            ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"),
        ] {
            assert_eq!(unit.get(key), value, "{name}: {key}");
        }
        // The implementation repository's servers have its rights.
        let real_time = ["event-channel", "memory-server", "imr"].contains(&name);
        let rights = unit.settings.iter().any(|(key, _)| key == "LimitRTPRIO");
        let none = unit.settings.iter().any(|(key, value)| key == "RestrictRealtime" && value == "yes");
        assert_eq!((rights, none), (real_time, !real_time), "{name}");
        // Its servers go on when it is restarted.
        let group = unit.settings.iter().all(|(key, _)| key != "KillMode");
        assert_eq!(group, name != "imr", "{name}");
    }
}
