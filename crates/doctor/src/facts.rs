//! What `/proc` and `/sys` say, without a judgement. The benchmark prints the same facts above its
//! figures.

use crate::Root;

/// How far the kernel lets itself be pre-empted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// Nearly everywhere, interrupt handlers in threads (`PREEMPT_RT`).
    Rt,
    /// Wherever no lock is held.
    Full,
    /// As full, but ordinary threads wait for the tick.
    Lazy,
    /// At points that were chosen.
    Voluntary,
    /// Only on the way back to user space.
    None,
    /// Chosen at boot (`PREEMPT_DYNAMIC`), and which cannot be read: debugfs is not mounted or not
    /// for this user.
    Dynamic,
}

impl Preemption {
    /// In the kernel's words.
    pub fn name(self) -> &'static str {
        match self {
            Preemption::Rt => "PREEMPT_RT",
            Preemption::Full => "full",
            Preemption::Lazy => "lazy",
            Preemption::Voluntary => "voluntary",
            Preemption::None => "none",
            Preemption::Dynamic => "PREEMPT_DYNAMIC, and which mode is in force cannot be read",
        }
    }

    fn of_word(word: &str) -> Option<Preemption> {
        match word {
            "full" => Some(Preemption::Full),
            "lazy" => Some(Preemption::Lazy),
            "voluntary" => Some(Preemption::Voluntary),
            "none" => Some(Preemption::None),
            _ => None,
        }
    }
}

/// Name, release and build of the kernel.
pub fn kernel(root: &Root) -> Option<String> {
    let name = root.line("/proc/sys/kernel/ostype")?;
    Some(format!("{name} {}", root.line("/proc/sys/kernel/osrelease")?))
}

/// The kernel's release as two numbers.
pub fn kernel_release(root: &Root) -> Option<(u32, u32)> {
    let release = root.line("/proc/sys/kernel/osrelease")?;
    let mut parts = release.split(['.', '-']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// The preemption model in force; `None` if it is unknown.
pub fn preemption(root: &Root) -> Option<Preemption> {
    let version = root.line("/proc/sys/kernel/version");
    let built = |word: &str| version.as_ref().is_some_and(|version| version.split(' ').any(|w| w == word));
    if root.line("/sys/kernel/realtime").as_deref() == Some("1") || built("PREEMPT_RT") {
        return Some(Preemption::Rt);
    }
    // The modes there are, with the one in force in parentheses.
    let in_force = root.line("/sys/kernel/debug/sched/preempt").and_then(|modes| {
        let (_, after) = modes.split_once('(')?;
        Preemption::of_word(after.split_once(')')?.0)
    });
    // A dynamic kernel has a boot parameter.
    let declared = kernel_argument(root, "preempt=").and_then(|mode| Preemption::of_word(&mode));
    let compiled = || {
        if built("PREEMPT_DYNAMIC") {
            Some(Preemption::Dynamic)
        } else if built("PREEMPT") {
            Some(Preemption::Full)
        } else {
            config(root)
        }
    };
    in_force.or(declared).or_else(compiled)
}

/// From the file that distributions put beside the kernel.
fn config(root: &Root) -> Option<Preemption> {
    let file = format!("/boot/config-{}", root.line("/proc/sys/kernel/osrelease")?);
    let text = root.text(&file)?;
    let has = |option: &str| text.lines().any(|line| line == format!("CONFIG_{option}=y"));
    [
        ("PREEMPT_VOLUNTARY", Preemption::Voluntary),
        ("PREEMPT_NONE", Preemption::None),
        ("PREEMPT", Preemption::Full),
    ]
    .into_iter()
    .find_map(|(option, mode)| has(option).then_some(mode))
}

/// What follows `name` in the kernel's command line.
pub fn kernel_argument(root: &Root, name: &str) -> Option<String> {
    let line = root.line("/proc/cmdline")?;
    line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned)
}

/// The processor's name.
pub fn processor(root: &Root) -> Option<String> {
    root.field("/proc/cpuinfo", "model name")
}

/// Whether the machine runs under a hypervisor that identifies itself.
pub fn virtual_machine(root: &Root) -> bool {
    root.field("/proc/cpuinfo", "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor"))
}

/// Microseconds of each period that real-time threads may take (-1: all), and that period.
pub fn throttling(root: &Root) -> Option<(i64, i64)> {
    let runtime = root.number("/proc/sys/kernel/sched_rt_runtime_us")?;
    Some((runtime, root.number("/proc/sys/kernel/sched_rt_period_us")?))
}

/// What the kernel reads the time from.
pub fn clock_source(root: &Root) -> Option<String> {
    root.line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// How the frequency of a processor is chosen.
pub fn governor(root: &Root, cpu: usize) -> Option<String> {
    root.line(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
}

/// Runnable threads, averaged over the last minute.
pub fn load(root: &Root) -> Option<String> {
    Some(root.line("/proc/loadavg")?.split(' ').next()?.to_owned())
}

/// The processors that are switched on.
pub fn online(root: &Root) -> Vec<usize> {
    root.line("/sys/devices/system/cpu/online").map(|list| cpu_list(&list)).unwrap_or_default()
}

/// The processors that this process may use.
pub fn allowed(root: &Root) -> Vec<usize> {
    root.field("/proc/self/status", "Cpus_allowed_list").map(|list| cpu_list(&list)).unwrap_or_default()
}

/// A list of processors as the kernel writes it: `0-3,8`. What is no number is left out.
pub fn cpu_list(text: &str) -> Vec<usize> {
    /// More than any kernel has; a nonsense range ends there.
    const MOST: usize = 8192;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse::<usize>().ok()?.min(MOST))
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    #[test]
    fn the_model_in_force_wins_over_the_one_built() {
        let of = |files: &[(&str, &str)]| preemption(&tree(files).root);
        let version = |v| ("/proc/sys/kernel/version", v);
        let modes = |m| ("/sys/kernel/debug/sched/preempt", m);
        let arguments = |a| ("/proc/cmdline", a);
        let dynamic = version("#1 SMP PREEMPT_DYNAMIC Mon");
        assert_eq!(of(&[("/sys/kernel/realtime", "1\n")]), Some(Preemption::Rt));
        assert_eq!(of(&[version("#1 SMP PREEMPT_RT Mon")]), Some(Preemption::Rt));
        assert_eq!(of(&[dynamic, modes("none voluntary (full) lazy\n")]), Some(Preemption::Full));
        assert_eq!(of(&[dynamic, arguments("quiet preempt=none")]), Some(Preemption::None));
        assert_eq!(of(&[dynamic]), Some(Preemption::Dynamic));
        assert_eq!(of(&[version("#1 SMP PREEMPT Mon")]), Some(Preemption::Full));
        let release = ("/proc/sys/kernel/osrelease", "5.10.0-x");
        let config = ("/boot/config-5.10.0-x", "CONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT is not set\n");
        assert_eq!(of(&[version("#1 SMP Mon"), release, config]), Some(Preemption::Voluntary));
        assert_eq!(of(&[]), None);
        assert_eq!(kernel_release(&tree(&[release]).root), Some((5, 10)));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpu_list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("5"), [5]);
        assert!(cpu_list("").is_empty() && cpu_list("x-y").is_empty() && cpu_list("3-1").is_empty());
        assert_eq!(cpu_list("8191-99999999").len(), 2);
    }
}
