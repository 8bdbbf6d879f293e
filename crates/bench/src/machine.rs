//! What a reader must know of the machine before the figures.

use std::fmt;

use isorb_doctor::{Root, facts};
use isorb_rt::sched::current_cpus;
use rustix::system::uname;
use serde::Serialize;

/// What /proc and /sys say of the machine. What cannot be read is `None`.
#[derive(Clone, Debug, Serialize)]
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
        let root = Root::system();
        let cpus: Vec<usize> = current_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default();
        let first = cpus.first().copied().unwrap_or(0);
        let (rt_runtime_us, rt_period_us) = facts::throttling(&root).unzip();
        let kernel = facts::kernel(&root).unwrap_or_default();
        Machine {
            kernel: format!("{kernel} {}", uname().machine().to_string_lossy()),
            preemption: facts::preemption(&root).map(|model| model.name().to_owned()),
            processor: facts::processor(&root),
            virtual_machine: facts::virtual_machine(&root),
            cpus,
            rt_runtime_us,
            rt_period_us,
            governor: facts::governor(&root, first),
            clocksource: facts::clock_source(&root),
            load: facts::load(&root),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_there_whatever_could_be_read() {
        let text = Machine::read(None).to_string();
        for word in
            ["kernel", "processor", "cores", "SCHED_OTHER", "throttling", "frequency", "clock", "load"]
        {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        assert!(Machine::read(Some(40)).to_string().contains("SCHED_FIFO 40"));
    }
}
