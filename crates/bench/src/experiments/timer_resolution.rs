//! How exactly a periodic thread keeps its rate of calls: sleeping until a point of the clock, and
//! with the ticks of older kernels. Each period it makes an invocation over TCP.
//!
//! The paper's kernel rounds every sleep up to its tick, 10 ms or 1 ms. Both are emulated here by
//! the one line in which the sleep is chosen; the third subject takes the point as it is.

use std::sync::Arc;
use std::time::Duration;

use isorb::{Config, Orb, Reference};
use isorb_rt::sched::{Cpus, ThreadSpec};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, Below, Cells, Claim, claims, control, most, paper};
use crate::figure::{Figure, Measured};
use crate::subjects::isorb::Echo;
use crate::subjects::isorb::generated::bench::TargetRef;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Requested against actual rate of a periodic thread's calls, with absolute sleeps and with ticks",
    source: "Zou, Levy, Liu: figure 6",
    paper: "with a 10 ms tick the rate of a periodic thread is erratic above 20 Hz; with a 1 ms tick it is as asked",
    seconds: (32, 63),
    run,
    claims,
};

const NAME: &str = "timer-resolution";
const RATES: [u32; 13] = [SLOWEST, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100];

/// 300 calls at this rate take a minute, for which a quick run has no time.
const SLOWEST: u32 = 5;

/// The subjects and their ticks in nanoseconds; 0 is none.
const SUBJECTS: [(&str, u64); 3] = [("absolute", 0), ("tick-1ms", 1_000_000), ("tick-10ms", 10_000_000)];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let orb = || Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() });
    // An ORB each, so that no call stays in the process.
    let (server, client) = (orb()?, orb()?);
    let root = server.root_poa()?;
    root.manager().activate().map_err(std::io::Error::other)?;
    let target: TargetRef = root.activate(Arc::new(Echo::new(&server))).map_err(std::io::Error::other)?;
    let target: TargetRef = client.resolve(&target.object().to_string())?;
    // At least 300 calls at every rate.
    let length = Duration::from_millis(cx.ms(30_500, 60_500).into());
    cx.progress(format!("{NAME}: all rates"));
    let mut threads = Vec::new();
    for rate in RATES.into_iter().filter(|&rate| rate > SLOWEST || !cx.quick) {
        // All at once: they sleep, and one that is late shows to the others as little as to itself.
        for (subject, tick) in SUBJECTS {
            let spec = ThreadSpec::new(subject).class(cx.class(0)).cpus(Cpus::one(cx.cpu()));
            let target = target.clone();
            let call = move || target.ping().is_ok();
            let thread = spec.spawn(move || periodic(rate, tick, length, call));
            threads.push((subject, rate, thread?));
        }
    }
    for (subject, rate, thread) in threads {
        let actual = thread.join().unwrap_or(f64::NAN);
        let error = 100.0 * (actual / f64::from(rate) - 1.0);
        let values = vec![("actual_hz", round(actual)), ("error_percent", round(error))];
        out.row("rate", subject, rate, values);
    }
    client.shutdown(true)?;
    server.shutdown(true)?;
    let (title, x) = ("Actual rate of a periodic thread's calls", "requested rate, Hz");
    out.figures = vec![Figure::new("rate", title, x, "actual rate, Hz", &["actual_hz"]).divide(1.0).linear()];
    Ok(())
}

/// The rate of successful calls in hertz that came of asking for `rate`.
fn periodic(rate: u32, tick: u64, length: Duration, call: impl Fn() -> bool) -> f64 {
    let period = NS_PER_S / u64::from(rate);
    let start = now_ns();
    let end = start + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let (mut periods, mut next, mut last) = (0u32, start, start);
    while last < end {
        let at = wake_at(&mut next, period, tick, now_ns());
        sleep_until(Deadline::at_ns(at));
        periods += u32::from(call());
        last = now_ns();
    }
    f64::from(periods) / ((last - start) as f64 / NS_PER_S as f64)
}

/// Until when the thread sleeps that has done its work at `now`. `next` is when its period ends.
fn wake_at(next: &mut u64, period: u64, tick: u64, now: u64) -> u64 {
    if tick == 0 {
        *next += period;
        return *next;
    }
    // A sleep of so long, rounded up to the tick, from the moment at which it is asked for.
    *next = now + period;
    // The moment lies a little behind the tick that woke the thread; a whole number of ticks ends
    // behind one as well.
    let since_tick = now % tick;
    now - since_tick + period.div_ceil(tick) * tick
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The largest error in percent of the rates above the one and up to the other.
fn error(r: &dyn Cells, subject: &str, above: f64, to: f64) -> f64 {
    let all = r.series("rate", subject, "error_percent").into_iter();
    most(all.filter(|&(rate, _)| rate > above && rate <= to).map(|(_, error)| error.abs()))
}

fn claims() -> Vec<Claim> {
    claims! {
        paper Below(12.0), "with a 1 ms tick every rate is off by at most {0:.1} % ({limit})",
            |r| [error(r, "tick-1ms", 0.0, 100.0)];
        paper Below(1.0), "with absolute sleeps every rate is off by at most {0:.2} % ({limit})",
            |r| [error(r, "absolute", 0.0, 100.0)];
        control Above(15.0), "with a 10 ms tick rates above 20 Hz are off by up to {0:.1} % ({limit})",
            |r| [error(r, "tick-10ms", 20.0, 100.0)];
        control Above(0.0), "which is {0:.1} points more than rates up to 20 Hz are off by ({limit})",
            |r| [error(r, "tick-10ms", 20.0, 100.0) - error(r, "tick-10ms", 0.0, 20.0)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_tick_rounds_a_sleep_up() {
        let mut next = 0;
        // 30 Hz, woken just behind the tick at 100 ms: the fourth tick after it.
        assert_eq!(wake_at(&mut next, NS_PER_S / 30, 10 * MS, 100 * MS + 7), 140 * MS);
        assert_eq!(wake_at(&mut next, 50 * MS, 10 * MS, 100 * MS + 7), 150 * MS);
        assert_eq!(wake_at(&mut next, 14 * MS, MS, 100 * MS + 7), 114 * MS);
        let mut next = 500;
        assert_eq!((wake_at(&mut next, 50, 0, 9999), wake_at(&mut next, 50, 0, 9999)), (550, 600));
    }
}
