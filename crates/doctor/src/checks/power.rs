//! Settings that save power at the price of latency.

use crate::facts;
use crate::finding::{Finding, Level};
use crate::root::Root;

/// A sleep from which waking up takes longer than this is in the way.
const LONG_WAKE_US: i64 = 20;

/// How the processors' frequency is chosen.
pub fn governor(root: &Root) -> Finding {
    const CHECK: &str = "governor";
    const MATTERS: &str = "After a rest the processor runs slowly until the governor has noticed, so rare urgent work is slow work.";
    let governors: Vec<String> =
        facts::online(root).into_iter().filter_map(|cpu| facts::governor(root, cpu)).collect();
    match governors.iter().find(|name| *name != "performance") {
        None if governors.is_empty() => {
            Finding::good(CHECK, "none: the frequency is fixed, or the host's business")
        }
        None => Finding::good(CHECK, "performance on every processor"),
        Some(name) => {
            let others = governors.iter().filter(|name| *name != "performance").count();
            Finding::new(CHECK, Level::Warning, format!("{name} on {others} of {} processors", governors.len()), MATTERS)
                .fix("cpupower frequency-set -g performance")
                .fix("for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $f; done")
        }
    }
}

/// Sleep states of idle processors.
pub fn idle_states(root: &Root) -> Finding {
    const CHECK: &str = "idle-states";
    const MATTERS: &str = "A processor that sleeps deeply needs so long to wake up for an interrupt.";
    let folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    let deep =
        root.names(folder).into_iter().filter(|state| state.starts_with("state")).filter_map(|state| {
            let latency = root.number(&format!("{folder}/{state}/latency"))?;
            let disabled = root.number(&format!("{folder}/{state}/disable")).is_some_and(|d| d != 0);
            (!disabled && latency > LONG_WAKE_US)
                .then(|| (latency, root.line(&format!("{folder}/{state}/name")).unwrap_or(state)))
        });
    match deep.max() {
        None => Finding::good(CHECK, format!("none that takes longer than {LONG_WAKE_US} us to leave")),
        Some((latency, name)) => {
            Finding::new(CHECK, Level::Warning, format!("{name} takes {latency} us to leave"), MATTERS)
                .fix(format!("cpupower idle-set -D {LONG_WAKE_US}"))
                .fix("on the processor of the urgent threads: for f in /sys/devices/system/cpu/cpuN/cpuidle/state[1-9]/disable; do echo 1 > $f; done")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    #[test]
    fn one_processor_that_saves_power_is_enough() {
        let online = ("/sys/devices/system/cpu/online", "0-1\n");
        let of = |cpu, name| {
            (
                [
                    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                ][cpu],
                name,
            )
        };
        assert_eq!(
            governor(&tree(&[online, of(0, "performance"), of(1, "performance")]).root).level,
            Level::Good
        );
        let finding = governor(&tree(&[online, of(0, "performance"), of(1, "schedutil")]).root);
        assert_eq!(
            (finding.level, finding.found.as_str()),
            (Level::Warning, "schedutil on 1 of 2 processors")
        );
        assert_eq!(governor(&tree(&[online]).root).level, Level::Good);
    }

    #[test]
    fn the_deepest_state_that_is_on_counts() {
        let deep = "/sys/devices/system/cpu/cpu0/cpuidle/state2";
        let (latency, name, disable) =
            (format!("{deep}/latency"), format!("{deep}/name"), format!("{deep}/disable"));
        let shallow = ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n");
        let on = tree(&[shallow, (&latency, "133\n"), (&name, "C6\n"), (&disable, "0\n")]);
        assert_eq!(idle_states(&on.root).found, "C6 takes 133 us to leave");
        let off = tree(&[shallow, (&latency, "133\n"), (&name, "C6\n"), (&disable, "1\n")]);
        assert_eq!(idle_states(&off.root).level, Level::Good);
    }
}
