//! The machine speaks first: what a reader must know of it before he believes a figure.

use std::fmt;
use std::fs;

use isorb_rt::sched::current_cpus;
use rustix::system::uname;

/// What /proc and /sys say of the machine. What cannot be read is `None`.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name and release of the kernel, and the hardware's architecture.
    pub kernel: String,
    /// How far the kernel lets itself be pre-empted.
    pub preemption: Option<String>,
    /// The processor's name.
    pub processor: Option<String>,
    /// Does the machine run under a hypervisor?
    pub virtual_machine: bool,
    /// The processors that this process may use.
    pub cpus: Vec<usize>,
    /// Microseconds of each period that real-time threads may take; -1 is no limit.
    pub rt_runtime_us: Option<i64>,
    /// That period in microseconds.
    pub rt_period_us: Option<i64>,
    /// How the frequency of the first usable processor is chosen.
    pub governor: Option<String>,
    /// What the kernel reads the time from.
    pub clocksource: Option<String>,
    /// Runnable threads, averaged over the last minute, when the run began.
    pub load: Option<String>,
    /// The native priority in `SCHED_FIFO` that subjects run at; `None` is an ordinary process.
    pub fifo: Option<u8>,
}

impl Machine {
    /// Reads what there is to read.
    pub fn read(fifo: Option<u8>) -> Machine {
        let name = uname();
        let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpus: Vec<usize> = current_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default();
        let first = cpus.first().copied().unwrap_or(0);
        Machine {
            kernel: format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine())),
            preemption: preemption(&text(name.version())),
            processor: field(&cpuinfo, "model name").map(str::to_owned),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            cpus,
            rt_runtime_us: number("/proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("/proc/sys/kernel/sched_rt_period_us"),
            governor: line(&format!("/sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor")),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load: line("/proc/loadavg").and_then(|l| Some(l.split(' ').next()?.to_owned())),
            fifo,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "not to be found";
        let or = |value: &Option<String>| value.clone().unwrap_or(unknown.to_owned());
        let virtual_machine = if self.virtual_machine { ", virtual machine" } else { "" };
        writeln!(f, "kernel       {}, preemption {}", self.kernel, or(&self.preemption))?;
        writeln!(f, "processor    {}{virtual_machine}", or(&self.processor))?;
        writeln!(f, "cores        {} usable {:?}", self.cpus.len(), self.cpus)?;
        match self.fifo {
            Some(priority) => writeln!(f, "scheduling   SCHED_FIFO {priority}, client and server alike")?,
            None => writeln!(
                f,
                "scheduling   SCHED_OTHER: no real-time priority, so other programs disturb the tails"
            )?,
        }
        match (self.rt_runtime_us, self.rt_period_us) {
            (Some(-1), _) => writeln!(f, "throttling   none (sched_rt_runtime_us -1)")?,
            (Some(runtime), Some(period)) => writeln!(
                f,
                "throttling   sched_rt_runtime_us {runtime} of {period}: blocks are short and followed by idle gaps"
            )?,
            _ => writeln!(f, "throttling   {unknown}")?,
        }
        writeln!(f, "frequency    governor {}", or(&self.governor))?;
        writeln!(f, "clock        {}", or(&self.clocksource))?;
        write!(f, "load         {} at start", or(&self.load))
    }
}

fn preemption(version: &str) -> Option<String> {
    if line("/sys/kernel/realtime").as_deref() == Some("1") {
        return Some("PREEMPT_RT".to_owned());
    }
    let built = version.split(' ').find(|word| word.starts_with("PREEMPT")).map(str::to_owned);
    // Of a dynamic kernel, the word in parentheses is the one in force; debugfs is often not mounted.
    let chosen = line("/sys/kernel/debug/sched/preempt")
        .and_then(|l| Some(l.split_once('(')?.1.split_once(')')?.0.to_owned()));
    match (built, chosen) {
        (Some(built), Some(chosen)) => Some(format!("{built}, now {chosen}")),
        (built, chosen) => built.or(chosen),
    }
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    line(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_cpuinfo() {
        let text = "processor\t: 0\nmodel name\t: A chip: fast\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name"), Some("A chip: fast"));
        assert_eq!(field(text, "flags"), Some("fpu hypervisor"));
        assert_eq!(field(text, "model"), None);
    }

    #[test]
    fn every_line_is_there_whatever_could_be_read() {
        let text = Machine::read(None).to_string();
        for word in
            ["kernel", "processor", "cores", "SCHED_OTHER", "throttling", "frequency", "clock", "load"]
        {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        assert!(Machine::read(Some(40)).to_string().contains("SCHED_FIFO 40"));
        assert!(preemption("#1 SMP PREEMPT_DYNAMIC today").unwrap().starts_with("PREEMPT"));
    }
}
