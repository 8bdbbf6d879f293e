//! Which faults are tried at a service: by the system calls that it makes.

use crate::faults::limits::Limit;
use crate::faults::strace::Calls;

/// A system call, the errors that the kernel can give, and what it serves.
struct Known {
    name: &'static str,
    serves: Serves,
    errors: &'static [&'static str],
}

/// What a call is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// Files: while such calls fail, reads go on.
    Store,
    /// Reads of files.
    Input,
    /// Connections, threads and memory.
    Machine,
}

const fn store(name: &'static str, errors: &'static [&'static str]) -> Known {
    Known { name, serves: Serves::Store, errors }
}

const fn input(name: &'static str, errors: &'static [&'static str]) -> Known {
    Known { name, serves: Serves::Input, errors }
}

const fn machine(name: &'static str, errors: &'static [&'static str]) -> Known {
    Known { name, serves: Serves::Machine, errors }
}

/// The calls that are tried where a service makes them. Waits (futex, epoll_wait) do not fail.
const KNOWN: &[Known] = &[
    store("openat", &["ENOSPC", "EIO", "EMFILE", "ENOMEM", "EROFS"]),
    input("pread64", &["EIO", "ENOMEM"]),
    store("pwrite64", &["ENOSPC", "EIO", "EROFS", "EDQUOT"]),
    store("fdatasync", &["EIO", "ENOSPC", "EROFS"]),
    store("fsync", &["EIO", "ENOSPC", "EROFS"]),
    store("ftruncate", &["EIO", "ENOSPC", "EROFS"]),
    store("fallocate", &["EIO", "ENOSPC"]),
    store("linkat", &["EIO", "ENOSPC", "EROFS"]),
    store("rename", &["EIO", "ENOSPC", "EROFS"]),
    store("unlink", &["EIO", "EROFS"]),
    store("flock", &["ENOLCK", "EIO"]),
    store("statx", &["EIO", "ENOMEM"]),
    input("read", &["EIO"]),
    store("write", &["ENOSPC", "EIO"]),
    machine("socket", &["EMFILE", "ENFILE", "ENOMEM"]),
    machine("bind", &["ENOMEM", "EROFS"]),
    machine("listen", &["ENOMEM"]),
    machine("accept4", &["EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED"]),
    machine("setsockopt", &["ENOMEM"]),
    machine("getsockname", &["ENOMEM"]),
    machine("recvfrom", &["EIO", "ENOMEM"]),
    machine("recvmsg", &["EIO", "ENOMEM", "EMFILE"]),
    machine("sendto", &["EIO", "ENOMEM", "ENOBUFS"]),
    machine("sendmsg", &["EIO", "ENOMEM", "ENOBUFS"]),
    machine("epoll_create1", &["EMFILE", "ENOMEM"]),
    machine("epoll_ctl", &["ENOMEM", "ENOSPC"]),
    machine("eventfd2", &["EMFILE", "ENOMEM"]),
    machine("memfd_create", &["EMFILE", "ENOMEM"]),
    machine("socketpair", &["EMFILE", "ENOMEM"]),
    machine("poll", &["ENOMEM"]),
    machine("clone3", &["EAGAIN", "ENOMEM"]),
    machine("mmap", &["ENOMEM"]),
];

/// A fault to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The system call, or the limit.
    pub call: &'static str,
    /// What it serves.
    pub serves: Serves,
    pub made: Made,
}

/// How a fault is made. Numbers are those of a thread's calls, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// One call fails with this error.
    Once(&'static str, u32),
    /// All calls fail with this error for a while.
    Lasts(&'static str),
    /// The process is killed in front of a call.
    Killed(u32),
    /// The process is limited to what it has for a while.
    Limited(Limit),
}

impl Made {
    /// What is done, without the number.
    pub fn kind(self) -> Kind {
        match self {
            Made::Once(..) => Kind::Once,
            Made::Lasts(_) => Kind::Lasts,
            Made::Killed(_) => Kind::Killed,
            Made::Limited(_) => Kind::Limited,
        }
    }
}

/// The kinds of faults, in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// One call fails.
    Once,
    /// All calls fail, until they do not.
    Lasts,
    /// The process is killed.
    Killed,
    /// The kernel gives no more.
    Limited,
}

/// The names of the calls that are listed.
pub fn listed() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

/// The faults for a service that makes these calls: each call fails with each of its errors, at up
/// to `depth` of its occurrences and for a while, and the process is killed at up to `depth`
/// occurrences of each call of the store. Each limit is met for a while. The short form takes turns
/// among the errors.
pub fn plan(calls: &Calls, depth: u32, short: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (turn, known) in KNOWN.iter().enumerate() {
        let Some(count) = calls.get(known.name).copied() else { continue };
        let fault = |made| Fault { call: known.name, serves: known.serves, made };
        for (number, error) in known.errors.iter().enumerate() {
            if short && number != turn % known.errors.len() {
                continue;
            }
            let mut occurrences = if short { vec![count] } else { spread(count, depth) };
            // The first one is made by the loader, before anything of the program runs.
            occurrences.retain(|nth| known.name != "mmap" || *nth > 1);
            faults.extend(occurrences.into_iter().map(|nth| fault(Made::Once(error, nth))));
            // The kernel reports a client that has left once for each.
            if *error != "ECONNABORTED" {
                faults.push(fault(Made::Lasts(error)));
            }
        }
        if known.serves != Serves::Machine {
            faults.extend(spread(count, depth).into_iter().map(|nth| fault(Made::Killed(nth))));
        }
    }
    faults.extend(Limit::ALL.map(|limit| {
        let serves = if limit == Limit::FileSize { Serves::Store } else { Serves::Machine };
        Fault { call: limit.name(), serves, made: Made::Limited(limit) }
    }));
    faults
}

/// Up to `most` numbers from 1 to `count`, the first and the last among them.
fn spread(count: u32, most: u32) -> Vec<u32> {
    if count <= most {
        return (1..=count).collect();
    }
    let steps = most.max(2) - 1;
    (0..=steps)
        .map(|step| 1 + u32::try_from(u64::from(count - 1) * u64::from(step) / u64::from(steps)).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_spread_from_the_first_to_the_last() {
        assert_eq!(spread(3, 5), [1, 2, 3]);
        assert_eq!(spread(100, 4), [1, 34, 67, 100]);
        assert_eq!(spread(9, 1), [1, 9]);
        assert_eq!(spread(0, 4), [0; 0]);
    }

    #[test]
    fn each_call_fails_once_and_for_a_while_and_the_store_is_killed() {
        let calls = Calls::from([("fdatasync".into(), 2), ("accept4".into(), 1), ("getpid".into(), 9)]);
        let faults = plan(&calls, 4, false);
        let count =
            |call: &str, kind| faults.iter().filter(|of| of.call == call && of.made.kind() == kind).count();
        assert_eq!([Kind::Once, Kind::Lasts, Kind::Killed].map(|kind| count("fdatasync", kind)), [6, 3, 2]);
        assert_eq!([Kind::Once, Kind::Lasts, Kind::Killed].map(|kind| count("accept4", kind)), [4, 3, 0]);
        assert_eq!(count("RLIMIT_FSIZE", Kind::Limited), 1);
        assert_eq!(faults.len(), 18 + Limit::ALL.len());
        assert!(plan(&calls, 2, true).len() < faults.len());
    }
}
