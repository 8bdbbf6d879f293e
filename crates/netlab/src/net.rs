//! Several hosts at one switch.

use std::net::Ipv4Addr;

use crate::lab::{INTERFACE, add, stem};
use crate::link::shape;
use crate::tool::{ip, ip_batch};
use crate::{Host, LabError, LinkSpec};

/// Hosts that all reach each other, without a limit to the rate unless one is set; each pair can be
/// cut. Removed when
/// it is dropped.
///
/// It has no IPv6, since such hosts send packets of their own, and all hosts know each other's
/// hardware addresses. So every packet is from a program, or from TCP for a program.
#[derive(Debug)]
pub struct Net {
    hosts: Vec<Host>,
    switch: String,
}

impl Net {
    /// Makes this many hosts, at most 250.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left behind.
    ///
    /// # Panics
    /// With more than 250.
    pub fn build(hosts: usize) -> Result<Net, LabError> {
        assert!(hosts <= 250, "a net has at most 250 hosts");
        let stem = stem()?;
        let host = |i: usize| Host::new(format!("{stem}-{i}"), Ipv4Addr::new(10, 78, 0, i as u8 + 1));
        // From here on, dropping it removes what there is.
        let net = Net { hosts: (0..hosts).map(host).collect(), switch: format!("{stem}-switch") };
        let switch = &net.switch;
        add(switch)?;
        ip(&format!("-n {switch} link add bridge type bridge"))?;
        ip(&format!("-n {switch} link set bridge up"))?;
        for (i, host) in net.hosts.iter().enumerate() {
            let namespace = host.namespace();
            add(namespace)?;
            host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))??;
            let own = hardware(i);
            ip(&format!(
                "-n {namespace} link add {INTERFACE} address {own} type veth peer name port{i} netns {switch}"
            ))?;
            ip(&format!("-n {switch} link set port{i} master bridge"))?;
            ip(&format!("-n {switch} link set port{i} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev {INTERFACE}", host.address()))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            ip(&format!("-n {namespace} link set {INTERFACE} up"))?;
            let others = net.hosts.iter().enumerate().filter(|(other, _)| *other != i);
            let known = |(other, host): (usize, &Host)| {
                let (address, hardware) = (host.address(), hardware(other));
                format!("neigh add {address} lladdr {hardware} dev {INTERFACE} nud permanent\n")
            };
            ip_batch(namespace, &others.map(known).collect::<String>())?;
        }
        Ok(net)
    }

    /// As [`build`](Net::build), for a test: where the machine cannot have namespaces, prints that
    /// the test is skipped, and why.
    ///
    /// # Panics
    /// Where it should have been possible.
    pub fn build_or_skip(hosts: usize) -> Option<Net> {
        match Net::build(hosts) {
            Ok(net) => Some(net),
            Err(error) if error.is_of_the_machine() => {
                println!("SKIPPED: no network lab: {error}");
                None
            }
            Err(error) => panic!("no network lab: {error}"),
        }
    }

    /// A host, from 0 on.
    ///
    /// # Panics
    /// Where there is none of this number.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// How many packets a host has sent to others.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn sent(&self, number: usize) -> Result<u64, LabError> {
        let file = format!("-n {} -s -o link show dev {INTERFACE}", self.hosts[number].namespace());
        let output = ip(&file)?;
        // ...  TX:  bytes packets errors ...\ 1234 12 0 ...
        let numbers = output.split("TX:").nth(1).and_then(|sent| sent.split('\\').nth(1));
        let packets = numbers.and_then(|numbers| numbers.split_whitespace().nth(1)?.parse().ok());
        packets.ok_or(LabError::Refused { command: format!("ip {file}"), output })
    }

    /// Limits the switch's port towards a host, as the link of a [`Lab`](crate::Lab) is limited:
    /// what several others send to it at a time waits in one queue.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn limit(&self, number: usize, port: &LinkSpec) -> Result<(), LabError> {
        shape(&self.switch, &format!("port{number}"), port)
    }

    /// Cuts two hosts off from each other (`true`), or connects them again. They get no error, as
    /// behind a router that is down.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn cut(&self, a: usize, b: usize, cut: bool) -> Result<(), LabError> {
        let change = if cut { "add" } else { "del" };
        for (here, there) in [(a, b), (b, a)] {
            let (here, there) = (&self.hosts[here], &self.hosts[there]);
            ip(&format!("-n {} route {change} blackhole {}/32", here.namespace(), there.address()))?;
        }
        Ok(())
    }
}

/// The hardware address of a host's interface: one of those that are given out locally.
fn hardware(host: usize) -> String {
    format!("02:00:0a:4e:00:{:02x}", host + 1)
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in self.hosts.iter().map(Host::namespace).chain([self.switch.as_str()]) {
            // It may never have been made, if this is the end of a failed `build`.
            let _ = ip(&format!("netns del {namespace}"));
        }
    }
}
