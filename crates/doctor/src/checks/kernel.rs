//! How the kernel schedules, and its clock source.

use crate::facts::{self, Preemption};
use crate::finding::{Finding, Level};
use crate::root::Root;

const MOUNT_DEBUGFS: &str = "mount -t debugfs none /sys/kernel/debug";

/// The share of each second that real-time threads may take (`sched_rt_runtime_us`).
pub fn throttling(root: &Root) -> Finding {
    const CHECK: &str = "throttling";
    const MATTERS: &str = "A real-time thread that takes a whole processor is stopped for the rest of each period, however \
                           urgent it is. The limit protects the machine from a program that loops: keep lanes below it, \
                           or switch it off once no real-time thread can loop.";
    match facts::throttling(root) {
        Some((-1, _)) => Finding::good(CHECK, "off (sched_rt_runtime_us is -1)"),
        Some((runtime, period)) if runtime >= period => {
            Finding::good(CHECK, format!("real-time threads may take all of each period of {period} us"))
        }
        Some((0, _)) => Finding::new(
            CHECK,
            Level::Blocking,
            "real-time threads may take no time (sched_rt_runtime_us is 0)",
            MATTERS,
        )
        .fix("sysctl -w kernel.sched_rt_runtime_us=950000"),
        Some((runtime, period)) => Finding::new(
            CHECK,
            Level::Warning,
            format!("real-time threads may take {runtime} of each {period} us"),
            MATTERS,
        )
        .fix("sysctl -w kernel.sched_rt_runtime_us=-1")
        .fix("for good: echo 'kernel.sched_rt_runtime_us = -1' > /etc/sysctl.d/90-real-time.conf"),
        None => Finding::new(CHECK, Level::Unknown, "sched_rt_runtime_us cannot be read", MATTERS)
            .fix("sysctl kernel.sched_rt_runtime_us"),
    }
}

/// The reserve for ordinary threads that took the place of throttling in Linux 6.12.
pub fn fair_server(root: &Root) -> Finding {
    const CHECK: &str = "fair-server";
    const FOLDER: &str = "/sys/kernel/debug/sched/fair_server";
    const MATTERS: &str = "Since Linux 6.12 a processor that real-time threads keep busy serves waiting ordinary threads for \
                           this long in each period, ahead of every SCHED_FIFO thread.";
    if facts::kernel_release(root).is_some_and(|release| release < (6, 12)) {
        return Finding::good(CHECK, "none: it came with Linux 6.12");
    }
    let cpus = root.names(FOLDER);
    if cpus.is_empty() {
        return Finding::new(CHECK, Level::Unknown, "debugfs is not mounted, or not for this user", MATTERS)
            .fix(MOUNT_DEBUGFS);
    }
    let runtime = |cpu: &String| root.number(&format!("{FOLDER}/{cpu}/runtime"));
    let reserved: Vec<&String> = cpus.iter().filter(|cpu| runtime(cpu).is_some_and(|ns| ns > 0)).collect();
    let Some(&first) = reserved.first() else {
        return Finding::good(CHECK, "off on every processor");
    };
    let ns = runtime(first).unwrap_or(0);
    let found = format!("{} us on {} of {} processors", ns / 1000, reserved.len(), cpus.len());
    Finding::new(CHECK, Level::Note, found, MATTERS)
        .fix(format!("on the processor of the urgent threads: echo 0 > {FOLDER}/{first}/runtime"))
}

/// How far the kernel lets itself be pre-empted.
pub fn preemption(root: &Root) -> Finding {
    const CHECK: &str = "preemption";
    const MATTERS: &str = "An urgent thread that wakes up during another thread's system call waits for that call to end or to \
                           reach a point where it can be pre-empted.";
    const SET: &str = "at boot: append preempt=full to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)";
    const NOW: &str = "now, in a kernel with PREEMPT_DYNAMIC: echo full > /sys/kernel/debug/sched/preempt";
    const RT: &str = "a kernel with PREEMPT_RT: apt-get install linux-image-rt-amd64, then reboot";
    match facts::preemption(root) {
        Some(Preemption::Rt) => Finding::good(CHECK, "PREEMPT_RT"),
        Some(Preemption::Full) => Finding::new(
            CHECK,
            Level::Note,
            "full, without PREEMPT_RT",
            "Interrupt handlers and what holds a spin lock still come first.",
        )
        .fix(RT),
        Some(Preemption::Dynamic) => Finding::new(CHECK, Level::Unknown, Preemption::Dynamic.name(), MATTERS)
            .fix(format!("{MOUNT_DEBUGFS}; cat /sys/kernel/debug/sched/preempt"))
            .fix(NOW)
            .fix(SET),
        Some(mode) => Finding::new(CHECK, Level::Warning, mode.name(), MATTERS).fix(NOW).fix(SET).fix(RT),
        None => {
            Finding::new(CHECK, Level::Unknown, "nothing tells the preemption model", MATTERS).fix("uname -v")
        }
    }
}

/// What the time is read from.
pub fn clock_source(root: &Root) -> Finding {
    const CHECK: &str = "clock-source";
    const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const MATTERS: &str = "This clock is read with a system call and from a slow device, microseconds each time; deadlines and \
                           time stamps read it often.";
    const FAST: [&str; 5] =
        ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource"];
    match facts::clock_source(root) {
        Some(name) if FAST.contains(&name.as_str()) => Finding::good(CHECK, name),
        Some(name) => {
            let finding = Finding::new(CHECK, Level::Warning, name, MATTERS);
            let available = root.line(AVAILABLE).unwrap_or_default();
            match available.split_whitespace().find(|other| FAST.contains(other)) {
                Some(better) => finding.fix(format!("echo {better} > {CURRENT}")),
                None => finding.fix("the kernel has given the fast one up; it says why: dmesg | grep -i -e tsc -e clocksource"),
            }
        }
        None => {
            Finding::new(CHECK, Level::Unknown, "cannot be read", MATTERS).fix("mount -t sysfs sysfs /sys")
        }
    }
}

/// Timers that fire when asked, instead of at the next tick.
pub fn timer_resolution(root: &Root) -> Finding {
    const CHECK: &str = "timer-resolution";
    const MATTERS: &str = "Every sleep and time-out ends at the next tick, up to ten milliseconds late.";
    // One `.resolution: N nsecs` a clock.
    let text = root.text("/proc/timer_list").unwrap_or_default();
    let worst = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix(".resolution:")?;
        rest.trim().strip_suffix("nsecs")?.trim().parse::<u64>().ok()
    });
    match worst.max() {
        Some(1) => Finding::good(CHECK, "1 ns"),
        Some(ns) => Finding::new(CHECK, Level::Blocking, format!("{ns} ns"), MATTERS)
            .fix("boot without highres=off and nohz=off, with a kernel that has CONFIG_HIGH_RES_TIMERS"),
        None => Finding::new(
            CHECK,
            Level::Unknown,
            "only root can read it (the probe measures what comes of it)",
            MATTERS,
        )
        .fix("grep resolution /proc/timer_list"),
    }
}

/// How much later than asked the kernel may wake ordinary threads up.
pub fn timer_slack(root: &Root) -> Finding {
    const CHECK: &str = "timer-slack";
    match root.number("/proc/self/timerslack_ns") {
        Some(ns) if ns > 1000 => Finding::new(
            CHECK,
            Level::Note,
            format!("{} us for ordinary threads", ns / 1000),
            "Ordinary threads sleep so much longer than they ask; real-time ones do not.",
        )
        .fix("for a running process: echo 1 > /proc/PID/timerslack_ns"),
        _ => Finding::good(CHECK, "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    #[test]
    fn throttling_is_judged_by_what_is_left() {
        let of = |runtime: &str| {
            let files = [
                ("/proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ];
            throttling(&tree(&files).root)
        };
        assert_eq!(of("-1\n").level, Level::Good);
        assert_eq!(of("1000000\n").level, Level::Good);
        assert_eq!(of("0\n").level, Level::Blocking);
        let finding = of("950000\n");
        assert_eq!(
            (finding.level, finding.fix[0].as_str()),
            (Level::Warning, "sysctl -w kernel.sched_rt_runtime_us=-1")
        );
        assert_eq!(of("x\n").level, Level::Unknown);
    }

    #[test]
    fn the_fair_server_is_looked_for_where_there_is_one() {
        let release = |r| ("/proc/sys/kernel/osrelease", r);
        let runtime = |r| ("/sys/kernel/debug/sched/fair_server/cpu0/runtime", r);
        assert_eq!(fair_server(&tree(&[release("6.1.0-13-amd64")]).root).level, Level::Good);
        assert_eq!(fair_server(&tree(&[release("6.18.44")]).root).level, Level::Unknown);
        assert_eq!(fair_server(&tree(&[release("6.18.44"), runtime("0\n")]).root).level, Level::Good);
        let finding = fair_server(&tree(&[release("6.18.44"), runtime("50000000\n")]).root);
        assert_eq!((finding.level, finding.found.as_str()), (Level::Note, "50000 us on 1 of 1 processors"));
        assert!(finding.fix[0].ends_with("echo 0 > /sys/kernel/debug/sched/fair_server/cpu0/runtime"));
    }

    #[test]
    fn preemption_models() {
        let of = |mode: &str| preemption(&tree(&[("/sys/kernel/debug/sched/preempt", mode)]).root).level;
        assert_eq!(of("none voluntary (full)"), Level::Note);
        assert_eq!(of("(none) voluntary full"), Level::Warning);
        assert_eq!(of("none (voluntary) full"), Level::Warning);
        assert_eq!(preemption(&tree(&[("/sys/kernel/realtime", "1")]).root).level, Level::Good);
    }

    #[test]
    fn a_slow_clock_is_replaced_by_a_fast_one_that_is_there() {
        let of = |current: &str, available: &str| {
            let folder = "/sys/devices/system/clocksource/clocksource0";
            let (current_file, available_file) =
                (format!("{folder}/current_clocksource"), format!("{folder}/available_clocksource"));
            clock_source(&tree(&[(&current_file, current), (&available_file, available)]).root)
        };
        assert_eq!(of("tsc\n", "tsc hpet\n").level, Level::Good);
        let finding = of("hpet\n", "tsc hpet acpi_pm\n");
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.fix[0].starts_with("echo tsc > /sys/"), "{:?}", finding.fix);
        assert!(of("acpi_pm\n", "acpi_pm\n").fix[0].contains("dmesg"));
    }

    #[test]
    fn timers() {
        let list = |ns: &str| tree(&[("/proc/timer_list", &format!("cpu: 0\n  .resolution: {ns} nsecs\n"))]);
        assert_eq!(timer_resolution(&list("1").root).level, Level::Good);
        assert_eq!(timer_resolution(&list("4000000").root).level, Level::Blocking);
        assert_eq!(timer_slack(&tree(&[("/proc/self/timerslack_ns", "50000\n")]).root).level, Level::Note);
        assert_eq!(timer_slack(&tree(&[("/proc/self/timerslack_ns", "0\n")]).root).level, Level::Good);
    }
}
