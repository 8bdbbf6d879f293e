//! What the process may ask the kernel for.

use isorb_rt::sched::{MissingRight, Right};

use crate::facts;
use crate::finding::{Finding, Level, Wanted};
use crate::root::Root;

/// Of capabilities(7).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

/// The right to the priority that is wanted.
pub fn scheduling(root: &Root, wanted: Wanted) -> Finding {
    const CHECK: &str = "real-time-right";
    const MATTERS: &str = "Without it every thread is an ordinary one, and waits for whatever else runs.";
    let Some((limit, has_capability)) = rights(root, "Max realtime priority", CAP_SYS_NICE) else {
        return unreadable(CHECK, MATTERS);
    };
    let native_priority = wanted.native_priority;
    if has_capability {
        return Finding::good(CHECK, format!("CAP_SYS_NICE: SCHED_FIFO {native_priority} may be had"));
    }
    if limit.is_none_or(|limit| limit >= u64::from(native_priority)) {
        let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        return Finding::good(
            CHECK,
            format!("RLIMIT_RTPRIO is {limit}: SCHED_FIFO {native_priority} may be had"),
        );
    }
    let right = Right::Scheduling { native_priority };
    missing(CHECK, MATTERS, Level::Blocking, MissingRight { right, hard_limit: limit, has_capability })
}

/// Whether processor time may be reserved for threads (`SCHED_DEADLINE`).
pub fn reservations(root: &Root) -> Finding {
    const CHECK: &str = "reservations";
    const MATTERS: &str = "Lanes with a reservation (SCHED_DEADLINE) run in the class of their priority instead, or do not start \
                           where real_time.mode is require. Others need none.";
    let effective = root.field("/proc/self/status", "CapEff");
    let effective = effective.and_then(|effective| u64::from_str_radix(&effective, 16).ok());
    let allowed = root.field("/proc/self/status", "Cpus_allowed_list");
    let online = root.text("/sys/devices/system/cpu/online").map(|text| text.trim().to_owned());
    let (Some(effective), Some(allowed), Some(online)) = (effective, allowed, online) else {
        return Finding::new(
            CHECK,
            Level::Unknown,
            "/proc/self/status or the online processors cannot be read",
            MATTERS,
        )
        .fix("mount -t proc proc /proc; mount -t sysfs sysfs /sys");
    };
    if effective & (1 << CAP_SYS_NICE) == 0 {
        return Finding::new(CHECK, Level::Note, "no CAP_SYS_NICE, which reserving takes", MATTERS)
            .fix("setcap cap_sys_nice+ep PROGRAM")
            .fix("in a systemd unit: AmbientCapabilities=CAP_SYS_NICE");
    }
    if allowed != online {
        let found = format!(
            "the process may use processors {allowed} of {online}; a confined thread may not reserve"
        );
        return Finding::new(CHECK, Level::Note, found, MATTERS).fix(
            "start it without taskset, or give its cpuset a root domain: echo root > cpuset.cpus.partition",
        );
    }
    let share = match facts::throttling(root) {
        Some((runtime, period)) if (0..period).contains(&runtime) => {
            format!("up to {runtime} of each {period} us of each processor, all reservations together")
        }
        Some(_) => {
            "without a limit, and without a check that all can be kept (sched_rt_runtime_us)".to_owned()
        }
        None => "as far as the kernel admits it".to_owned(),
    };
    Finding::good(CHECK, format!("threads may reserve processor time {share}"))
}

/// The right to keep all of the memory.
pub fn locked_memory(root: &Root) -> Finding {
    const CHECK: &str = "locked-memory";
    const MATTERS: &str =
        "A page that was dropped or swapped out costs the thread that touches it a disk access.";
    let Some((limit, has_capability)) = rights(root, "Max locked memory", CAP_IPC_LOCK) else {
        return unreadable(CHECK, MATTERS);
    };
    match (limit, has_capability) {
        (_, true) => Finding::good(CHECK, "CAP_IPC_LOCK: all memory may be locked"),
        (None, false) => Finding::good(CHECK, "RLIMIT_MEMLOCK is unlimited: all memory may be locked"),
        (limit, false) => {
            let right = Right::LockedMemory;
            missing(CHECK, MATTERS, Level::Warning, MissingRight { right, hard_limit: limit, has_capability })
        }
    }
}

/// The hard limit (`None`: unlimited) and whether the capability is in force.
fn rights(root: &Root, limit: &str, capability: u32) -> Option<(Option<u64>, bool)> {
    let limits = root.text("/proc/self/limits")?;
    // Name, soft limit, hard limit and sometimes a unit, in columns.
    let hard =
        limits.lines().find_map(|line| line.strip_prefix(limit))?.split_whitespace().nth(1)?.to_owned();
    let hard = if hard == "unlimited" { None } else { Some(hard.parse().ok()?) };
    let effective = root.field("/proc/self/status", "CapEff")?;
    let effective = u64::from_str_radix(&effective, 16).ok()?;
    Some((hard, effective & (1 << capability) != 0))
}

/// The first line of a missing right's text is the finding, the others are the remedies.
fn missing(check: &'static str, matters: &'static str, level: Level, missing: MissingRight) -> Finding {
    let text = missing.to_string();
    let (found, commands) = text.split_once('\n').unwrap_or((&text, ""));
    let found = found.trim_end_matches("Do one of:").trim_end();
    let finding = Finding::new(check, level, found, matters);
    commands.lines().map(str::trim).fold(finding, Finding::fix)
}

fn unreadable(check: &'static str, matters: &'static str) -> Finding {
    Finding::new(check, Level::Unknown, "/proc/self/limits and status cannot be read", matters)
        .fix("mount -t proc proc /proc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    const NONE: &str = "Name:\tx\nCapEff:\t0000000000000000\n";
    const NICE: &str = "CapEff:\t0000000000800000\n";
    const LOCK: &str = "CapEff:\t0000000000004000\n";

    fn limits(rtprio: &str, memlock: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max locked memory         65536                {memlock}              bytes     \n\
             Max realtime priority     0                    {rtprio}                    \n"
        )
    }

    fn both(limits: &str, status: &str) -> (Finding, Finding) {
        let tree = tree(&[("/proc/self/limits", limits), ("/proc/self/status", status)]);
        (scheduling(&tree.root, Wanted { native_priority: 90 }), locked_memory(&tree.root))
    }

    #[test]
    fn a_capability_or_a_limit_suffices() {
        assert_eq!(both(&limits("0", "65536"), NICE).0.level, Level::Good);
        assert_eq!(both(&limits("90", "65536"), NONE).0.level, Level::Good);
        assert_eq!(both(&limits("unlimited", "65536"), NONE).0.level, Level::Good);
        assert_eq!(both(&limits("0", "unlimited"), NONE).1.level, Level::Good);
        assert_eq!(both(&limits("0", "65536"), LOCK).1.level, Level::Good);
    }

    #[test]
    fn what_is_missing_is_said_with_the_commands() {
        let (scheduling, memory) = both(&limits("89", "65536"), NONE);
        assert_eq!((scheduling.level, memory.level), (Level::Blocking, Level::Warning));
        assert!(scheduling.found.contains("RLIMIT_RTPRIO is 89"), "{}", scheduling.found);
        assert!(scheduling.fix.iter().any(|line| line.ends_with("LimitRTPRIO=90")), "{:?}", scheduling.fix);
        assert!(memory.found.contains("RLIMIT_MEMLOCK is 65536"), "{}", memory.found);
        assert!(memory.fix.iter().any(|line| line.contains("setcap cap_ipc_lock+ep")), "{:?}", memory.fix);
    }

    #[test]
    fn a_user_with_the_right_to_reserve_sees_how_much() {
        let judge = |status: &str, runtime: &str| {
            let tree = tree(&[
                ("/proc/self/status", status),
                ("/sys/devices/system/cpu/online", "0-3\n"),
                ("/proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("/proc/sys/kernel/sched_rt_period_us", "1000000"),
            ]);
            reservations(&tree.root)
        };
        let all = format!("{NICE}Cpus_allowed_list:\t0-3\n");
        let good = judge(&all, "950000");
        assert_eq!(good.level, Level::Good);
        assert!(good.found.contains("950000 of each 1000000 us"), "{}", good.found);
        assert!(judge(&all, "-1").found.contains("without a check"));
        let confined = judge(&format!("{NICE}Cpus_allowed_list:\t0-1\n"), "950000");
        assert_eq!(confined.level, Level::Note);
        assert!(confined.found.contains("0-1 of 0-3"), "{}", confined.found);
        let without = judge(&format!("{NONE}Cpus_allowed_list:\t0-3\n"), "950000");
        assert_eq!(without.level, Level::Note);
        assert!(without.fix.iter().any(|line| line.contains("setcap cap_sys_nice+ep")), "{:?}", without.fix);
        assert_eq!(judge(NONE, "950000").level, Level::Unknown);
    }

    #[test]
    fn nonsense_is_unknown() {
        for (limits, status) in
            [("", NONE), ("Max realtime priority x y\n", NONE), (limits("0", "0").as_str(), "CapEff: z\n")]
        {
            assert_eq!(both(limits, status).0.level, Level::Unknown, "{limits} {status}");
        }
    }
}
