//! The processors and their other users.

use crate::facts;
use crate::finding::{Finding, Level};
use crate::root::Root;

/// How many processors the process may use.
pub fn usable(root: &Root) -> Finding {
    const CHECK: &str = "processors";
    let (online, allowed) = (facts::online(root), facts::allowed(root));
    let found = format!("{} of {} usable", allowed.len(), online.len());
    match allowed.len() {
        0 => {
            Finding::new(CHECK, Level::Unknown, "cannot be read", "Where there is one, everything shares it.")
                .fix("nproc --all")
        }
        1 => Finding::new(
            CHECK,
            Level::Note,
            found,
            "One processor for everything: priorities still hold, and nothing can be kept apart.",
        )
        .fix("taskset -c 0- PROGRAM, or allow the control group more (cpuset.cpus)"),
        _ => Finding::good(CHECK, found),
    }
}

/// Two processors that are one core.
pub fn siblings(root: &Root) -> Finding {
    const CHECK: &str = "hyper-threading";
    match root.number("/sys/devices/system/cpu/smt/active") {
        Some(1) => Finding::new(
            CHECK,
            Level::Warning,
            "on",
            "What runs on a core's other half slows an urgent thread down by up to a half, whatever its priority.",
        )
        .fix("echo off > /sys/devices/system/cpu/smt/control")
        .fix("at boot: nosmt"),
        _ => Finding::good(CHECK, "off or none"),
    }
}

/// Processors that the scheduler leaves alone.
pub fn isolation(root: &Root) -> Finding {
    const CHECK: &str = "isolation";
    let list = |file: &str| root.line(file).filter(|list| !list.is_empty() && list != "(null)");
    let isolated = list("/sys/devices/system/cpu/isolated");
    let tickless = list("/sys/devices/system/cpu/nohz_full");
    match (isolated, tickless) {
        (Some(isolated), Some(tickless)) => Finding::good(CHECK, format!("isolated {isolated}, without tick {tickless}")),
        (Some(isolated), None) => Finding::good(CHECK, format!("isolated {isolated}")),
        _ => Finding::new(
            CHECK,
            Level::Note,
            "no processor is isolated",
            "Kernel threads, interrupts and other programs' bursts share every processor with the urgent threads.",
        )
        .fix("at boot, for processors 2 and 3: isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3")
        .fix("then bind: taskset -c 2-3 PROGRAM"),
    }
}

/// Which processors interrupts go to.
pub fn interrupts(root: &Root) -> Finding {
    const CHECK: &str = "interrupts";
    const MATTERS: &str = "A daemon moves interrupts between processors, the urgent threads' own included.";
    let balanced = root.names("/proc").into_iter().any(|pid| {
        pid.bytes().all(|b| b.is_ascii_digit())
            && root.line(&format!("/proc/{pid}/comm")).as_deref() == Some("irqbalance")
    });
    if balanced {
        Finding::new(CHECK, Level::Warning, "irqbalance is running", MATTERS)
            .fix("systemctl disable --now irqbalance")
            .fix("or keep it off some: IRQBALANCE_BANNED_CPULIST=2-3 in /etc/default/irqbalance")
    } else {
        Finding::good(CHECK, "no daemon moves interrupts")
    }
}

/// A hypervisor, and the time that it takes away.
pub fn virtual_machine(root: &Root) -> Finding {
    const CHECK: &str = "virtual-machine";
    const MATTERS: &str =
        "The host may stop a virtual processor at any moment; no setting in here bounds that.";
    if !facts::virtual_machine(root) {
        return Finding::good(CHECK, "no hypervisor shows itself");
    }
    // cpu user nice system idle iowait irq softirq steal
    let line = root.line("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let total: u64 = ticks.iter().sum();
    let stolen = ticks.get(7).copied().unwrap_or(0) as f64 / total.max(1) as f64;
    let level = if stolen > 0.001 { Level::Warning } else { Level::Note };
    let found = format!(
        "runs under a hypervisor, which has taken {:.2} % of the time since the start",
        stolen * 100.0
    );
    Finding::new(CHECK, level, found, MATTERS)
        .fix("on the host: pin each virtual processor to a core of its own (virsh vcpupin DOMAIN VCPU CORE), and share none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    #[test]
    fn processors_are_counted() {
        let online = ("/sys/devices/system/cpu/online", "0-3\n");
        let of = |list: &str| {
            usable(&tree(&[online, ("/proc/self/status", &format!("Cpus_allowed_list:\t{list}\n"))]).root)
        };
        assert_eq!((of("0-1").level, of("0-1").found), (Level::Good, "2 of 4 usable".to_owned()));
        assert_eq!(of("2").level, Level::Note);
        assert_eq!(of("").level, Level::Unknown);
    }

    #[test]
    fn siblings_and_isolation() {
        assert_eq!(
            siblings(&tree(&[("/sys/devices/system/cpu/smt/active", "1\n")]).root).level,
            Level::Warning
        );
        assert_eq!(siblings(&tree(&[("/sys/devices/system/cpu/smt/active", "0\n")]).root).level, Level::Good);
        let isolated = ("/sys/devices/system/cpu/isolated", "2-3\n");
        assert_eq!(isolation(&tree(&[isolated]).root).level, Level::Good);
        assert_eq!(isolation(&tree(&[("/sys/devices/system/cpu/isolated", "\n")]).root).level, Level::Note);
        assert_eq!(
            isolation(&tree(&[isolated, ("/sys/devices/system/cpu/nohz_full", " (null)\n")]).root).found,
            "isolated 2-3"
        );
    }

    #[test]
    fn a_daemon_that_moves_interrupts_is_found_by_its_name() {
        let of = |name| {
            interrupts(&tree(&[("/proc/17/comm", name), ("/proc/tty/comm", "irqbalance\n")]).root).level
        };
        assert_eq!(of("irqbalance\n"), Level::Warning);
        assert_eq!(of("sshd\n"), Level::Good);
    }

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let of = |steal: &str| {
            let stat = format!("cpu  100 0 100 99000 0 0 0 {steal} 0 0\ncpu0 1\n");
            virtual_machine(
                &tree(&[("/proc/cpuinfo", "flags\t: fpu hypervisor\n"), ("/proc/stat", &stat)]).root,
            )
        };
        assert_eq!(of("0").level, Level::Note);
        assert_eq!(of("800").level, Level::Warning);
        assert!(of("800").found.contains("0.80 %"), "{}", of("800").found);
        assert_eq!(virtual_machine(&tree(&[("/proc/cpuinfo", "flags\t: fpu\n")]).root).level, Level::Good);
    }
}
