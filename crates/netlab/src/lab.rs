//! Two hosts and the link between them.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tool::ip;
use crate::{Host, LabError, LinkSpec, link};

/// What every host calls its end of the link.
pub(crate) const INTERFACE: &str = "eth0";

/// Every namespace of ours is called so, followed by the process id of its owner and a number.
const PREFIX: &str = "isorb-lab-";

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Two hosts with a link between them. Removed when it is dropped; processes that still run in it
/// keep their namespace, without a name, until they end.
#[derive(Debug)]
pub struct Lab {
    left: Host,
    right: Host,
}

impl Lab {
    /// Makes it. Labs do not see each other, however many there are.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left behind.
    pub fn build(spec: &LinkSpec) -> Result<Lab, LabError> {
        let stem = stem()?;
        // From here on, dropping it removes what there is.
        let lab = Lab {
            left: Host::new(format!("{stem}-left"), LEFT),
            right: Host::new(format!("{stem}-right"), RIGHT),
        };
        for host in [&lab.left, &lab.right] {
            add(host.namespace())?;
        }
        let (left, right) = (lab.left.namespace(), lab.right.namespace());
        ip(&format!("-n {left} link add {INTERFACE} type veth peer name {INTERFACE} netns {right}"))?;
        for host in [&lab.left, &lab.right] {
            let namespace = host.namespace();
            // Packets as long as on a real wire: by itself the kernel hands 64 KiB over in one,
            // which at 100 Mbit a second keep the link busy for 5 ms, whatever else is urgent.
            ip(&format!("-n {namespace} link set {INTERFACE} gso_max_segs 1 gso_max_size 1514"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev {INTERFACE}", host.address()))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            ip(&format!("-n {namespace} link set {INTERFACE} up"))?;
            link::shape(namespace, INTERFACE, spec)?;
        }
        Ok(lab)
    }

    /// As [`build`](Lab::build), for a test: where the machine cannot have a lab, prints that the
    /// test is skipped, and why.
    ///
    /// # Panics
    /// Where it should have been possible.
    pub fn build_or_skip(spec: &LinkSpec) -> Option<Lab> {
        match Lab::build(spec) {
            Ok(lab) => Some(lab),
            Err(error) if error.is_of_the_machine() => {
                println!("skipped: no network lab: {error}");
                None
            }
            Err(error) => panic!("no network lab: {error}"),
        }
    }

    /// One host.
    pub fn left(&self) -> &Host {
        &self.left
    }

    /// The other.
    pub fn right(&self) -> &Host {
        &self.right
    }

    /// Makes the link another one, while it is in use. What waits in its queues is lost.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn change_link(&self, spec: &LinkSpec) -> Result<(), LabError> {
        for host in [&self.left, &self.right] {
            crate::tool::tc(&format!("-n {} qdisc del dev {INTERFACE} root", host.namespace()))?;
            link::shape(host.namespace(), INTERFACE, spec)?;
        }
        Ok(())
    }

    /// Unplugs the link at the right host's end (`false`), or plugs it in again.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn set_plugged(&self, plugged: bool) -> Result<(), LabError> {
        let state = if plugged { "up" } else { "down" };
        ip(&format!("-n {} link set {INTERFACE} {state}", self.right.namespace())).map(drop)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in [&self.left, &self.right] {
            // It may never have been made, if this is the end of a failed `build`. Both ends of the
            // link go with the first.
            let _ = ip(&format!("netns del {}", host.namespace()));
        }
    }
}

/// What the names of a new lab's namespaces begin with. Removes what others left behind.
pub(crate) fn stem() -> Result<String, LabError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotPermitted);
    }
    sweep()?;
    Ok(format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Makes a namespace.
pub(crate) fn add(namespace: &str) -> Result<(), LabError> {
    // A container may be root and yet not be allowed to.
    ip(&format!("netns add {namespace}")).map(drop).map_err(|error| match error {
        LabError::Refused { output, .. } if output.contains("not permitted") => LabError::NotPermitted,
        other => other,
    })
}

/// Removes the labs of processes that were killed.
fn sweep() -> Result<(), LabError> {
    for line in ip("netns list")?.lines() {
        let Some(name) = line.split_whitespace().next() else { continue };
        if owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another process may be doing the same.
            let _ = ip(&format!("netns del {name}"));
        }
    }
    Ok(())
}

/// The process id in a namespace's name, if it is one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_an_owner() {
        assert_eq!(owner("isorb-lab-123-0-left"), Some(123));
        assert_eq!((owner("isorb-lab-x-0-left"), owner("isorb-lab-"), owner("other")), (None, None, None));
    }
}
