//! An etcd cluster of three processes.

use isorb_etcd::{Cluster, EtcdNames};
use isorb_naming::store::Capacity;
use isorb_testkit::TempFolder;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Members {
    folder: TempFolder,
    /// The ports for clients and for the other members.
    ports: Vec<(u16, u16)>,
    running: Vec<Option<Child>>,
}

impl Members {
    /// Starts three; `None`, with a line, on a machine without etcd.
    pub fn start() -> Option<Members> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("skipped: there is no etcd; install the package etcd-server");
            return None;
        }
        let free: Vec<TcpListener> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |i: usize| free[i].local_addr().unwrap().port();
        let ports = (0..3).map(|i| (port(i), port(i + 3))).collect();
        drop(free);
        let mut members = Members { folder: TempFolder::new(), ports, running: vec![None, None, None] };
        (0..3).for_each(|member| members.run(member));
        (0..3).for_each(|member| members.await_member(member));
        Some(members)
    }

    /// Starts a member, with what it had on its disk.
    pub fn run(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (client, peer) = self.ports[member];
        let all: Vec<String> =
            self.ports.iter().enumerate().map(|(i, (_, peer))| format!("m{i}={}", url(*peer))).collect();
        let mut command = Command::new("etcd");
        command
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(self.folder.file(format!("m{member}")));
        command.args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)]);
        command.args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)]);
        command.args(["--initial-cluster", &all.join(",")]);
        command.args(["--election-timeout", "500", "--heartbeat-interval", "100"]);
        command.args(["--max-txn-ops", "10000", "--log-level", "panic"]);
        // Processors that etcd has no binaries for; it says so at start.
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running[member] = Some(command.spawn().expect("etcd starts"));
    }

    /// Until the member answers with what a majority agreed on.
    pub fn await_member(&self, member: usize) {
        let end = Instant::now() + TIMEOUT;
        let alone = Arc::new(Cluster::new([self.url(member)], "await").unwrap());
        while let Err(refusal) = EtcdNames::open(alone.clone(), Capacity::default()) {
            assert!(Instant::now() < end, "member {member} does not answer: {refusal}");
        }
    }

    /// Kills a member.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.running[member].take() {
            child.kill().expect("it runs");
            child.wait().expect("it was killed");
        }
    }

    /// The cluster, with keys of its own.
    pub fn cluster(&self, prefix: &str) -> Cluster {
        Cluster::new((0..3).map(|member| self.url(member)), prefix).unwrap()
    }

    fn url(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[member].0)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|member| self.kill(member));
    }
}
