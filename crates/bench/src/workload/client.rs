//! The client of a workload: threads that play roles.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use clap::Args;
use isorb::rt::ClassSelectors;
use isorb::rt::Overrides;
use isorb::rt::policy::{Protocol, ProtocolProperties, RtPolicy, TcpProperties};
use isorb::{Kind, Orb, Reference, Result, SystemException};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::layers;
use super::plan::{Call, Plan, Role};
use super::processes::RoleResult;
use super::raw_probe::RawProbe;
use super::setup::Setup;
use crate::process::limit_spinning;
use crate::subjects::isorb::generated::bench::{LayeredRef, MessageView, TargetRef};
use crate::subjects::isorb::{failed, readings};

/// Samples that a thread keeps at most; a thread that calls without a pause makes more.
pub(super) const MAX_SAMPLES: usize = 20_000;
/// Between the barrier and the first call: all threads have slept by then.
const HEAD_START_NS: u64 = 20_000_000;

/// Arguments of the client.
#[derive(Args, Debug)]
pub struct ClientArgs {
    /// How the workload is set up, in JSON
    setup: Setup,
    /// The server's reference
    reference: String,
    /// The address of its raw socket
    probe_address: Option<String>,
    /// The reference of the object that says where time goes
    layered: Option<String>,
}

/// The target of the threads.
struct Callee {
    orb: Orb,
    target: TargetRef,
    /// Of the raw socket, and whether its packets are marked.
    probe: Option<(String, bool)>,
    layered: Option<LayeredRef>,
    /// Does the raw socket stamp?
    stamped: bool,
}

/// What a thread calls through.
enum Connection<'a> {
    Orb(&'a Callee),
    Raw(RawProbe, Stamped),
    Layers(layers::Caller<'a>),
}

/// Where the time of raw calls went, if their server says so.
type Stamped = Option<Vec<u64>>;

/// Obeys orders until standard input ends.
pub fn call(args: &ClientArgs) -> io::Result<()> {
    limit_spinning()?;
    let orb = Orb::with_config(args.setup.config()).map_err(failed)?;
    if args.setup.marked {
        orb.set_network_priority_mapping(Arc::new(ClassSelectors));
        let tcp = TcpProperties { network_priority: true, ..TcpProperties::default() };
        let protocols = vec![Protocol { tag: 0, properties: ProtocolProperties::Tcp(tcp) }];
        orb.set_rt_overrides(Overrides::new(&[RtPolicy::ClientProtocol(protocols)]).map_err(failed)?);
    }
    let target: TargetRef = orb.resolve(&args.reference).map_err(failed)?;
    let probe = args.probe_address.clone().map(|address| (address, args.setup.marked));
    let layered = args.layered.as_ref().map(|it| orb.resolve(it)).transpose().map_err(failed)?;
    let callee = Callee { orb, target, probe, layered, stamped: args.setup.layers };
    let mut output = io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    for line in io::stdin().lock().lines() {
        let plan: Plan = line?.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        let results = run_plan(&callee, &plan).map_err(failed)?;
        for done in results {
            let RoleResult { calls, due, in_time, latencies, parts } = &done;
            writeln!(output, "role {calls} {due} {in_time} {} {}", latencies.len(), parts.len())?;
            latencies.iter().chain(parts).try_for_each(|ns| output.write_all(&ns.to_ne_bytes()))?;
        }
        output.flush()?;
    }
    Ok(())
}

/// Of each role, what its threads did together.
fn run_plan(callee: &Callee, plan: &Plan) -> Result<Vec<RoleResult>> {
    let threads: u32 = plan.roles.iter().map(|role| role.threads).sum();
    let barrier = Barrier::new(threads as usize + 1);
    let (warm_up, start) = (AtomicU64::new(0), AtomicU64::new(0));
    let length = u64::from(plan.ms) * 1_000_000;
    thread::scope(|scope| {
        let mut threads_of_roles = Vec::new();
        for (i, &role) in plan.roles.iter().enumerate() {
            for _ in 0..role.threads {
                let (barrier, warm_up, start) = (&barrier, &warm_up, &start);
                threads_of_roles.push((
                    i,
                    scope.spawn(move || {
                        let mut ready = prepare(callee, role);
                        barrier.wait();
                        barrier.wait();
                        sleep_until(Deadline::at_ns(warm_up.load(Ordering::Acquire)));
                        let warmed = ready.as_mut().map_or(Ok(()), Connection::warm_up);
                        barrier.wait();
                        barrier.wait();
                        let line = ready?;
                        warmed?;
                        let start = start.load(Ordering::Acquire);
                        run_role(line, role, start, start + length)
                    }),
                ));
            }
        }
        // All are ready, then all know the time: first for a call that all make at once, which
        // opens as many connections as are needed at a time, and then for the run.
        for at in [&warm_up, &start] {
            barrier.wait();
            at.store(now_ns() + HEAD_START_NS, Ordering::Release);
            barrier.wait();
        }
        let mut results: Vec<RoleResult> = plan.roles.iter().map(|_| RoleResult::default()).collect();
        for (i, member) in threads_of_roles {
            let done = member.join().map_err(|_| Kind::Internal)??;
            let all = &mut results[i];
            all.calls += done.calls;
            all.due += done.due;
            all.in_time += done.in_time;
            all.latencies.extend(done.latencies);
            all.parts.extend(done.parts);
        }
        Ok(results)
    })
}

/// Takes the role's priority, and opens its connection.
fn prepare(callee: &Callee, role: Role) -> Result<Connection<'_>> {
    if let Some(priority) = role.priority {
        callee.orb.rt_current().set_the_priority(priority)?;
    }
    if role.call == Call::Raw {
        let (address, marked) = callee.probe.as_ref().ok_or(Kind::BadParam)?;
        let probe = RawProbe::connect(address, role.payload, role.work, role.priority.filter(|_| *marked));
        let stamped = callee.stamped.then(Vec::new);
        return probe.map(|probe| Connection::Raw(probe, stamped)).map_err(broken);
    }
    if role.call == Call::Layers {
        let missing =
            || SystemException::from(Kind::BadParam).detail("the server was started without --layers");
        let target = callee.layered.as_ref().ok_or_else(missing)?;
        target.object().validate_connection()?;
        return Ok(Connection::Layers(layers::Caller::new(&callee.orb, target)));
    }
    callee.target.object().validate_connection()?;
    callee.target.ping()?;
    Ok(Connection::Orb(callee))
}

impl Connection<'_> {
    fn warm_up(&mut self) -> Result<()> {
        match self {
            Connection::Orb(callee) => callee.target.ping(),
            // It has its connection.
            Connection::Raw(..) => Ok(()),
            Connection::Layers(caller) => caller.warm_up(),
        }
    }

    /// Where the time of its calls went, if it asks.
    fn parts(self) -> Result<Vec<u64>> {
        match self {
            Connection::Orb(_) => Ok(Vec::new()),
            Connection::Raw(_, stamped) => Ok(stamped.unwrap_or_default()),
            Connection::Layers(caller) => caller.finish(),
        }
    }
}

fn broken(error: io::Error) -> SystemException {
    SystemException::from(Kind::CommFailure).detail(format!("probe: {error}"))
}

fn run_role(mut line: Connection<'_>, role: Role, start: u64, end: u64) -> Result<RoleResult> {
    let payload = vec![1; role.payload as usize];
    let readings = match role.call {
        Call::Structures(count) => readings(count),
        Call::Message | Call::Raw | Call::Layers => Vec::new(),
    };
    let mut call = || match &mut line {
        Connection::Raw(probe, None) => probe.call().map_err(broken),
        Connection::Raw(probe, Some(parts)) => {
            let begun = now_ns();
            probe.call().map_err(broken)?;
            let ([arrived, left], ended) = (probe.stamps(), now_ns());
            if parts.len() < MAX_SAMPLES * layers::RAW.len() {
                parts.extend(layers::parts([begun, arrived, left, ended]));
            }
            Ok(())
        }
        Connection::Layers(caller) => caller.call(role.work, &payload),
        Connection::Orb(Callee { orb, target, .. }) => orb.scope(|scope| match role.call {
            Call::Structures(_) => target.structs_in(scope, &readings).map(drop),
            _ => target.method_in(scope, &mut MessageView { work: role.work, payload: &payload }),
        }),
    };
    let mut done = RoleResult { latencies: Vec::with_capacity(MAX_SAMPLES), ..RoleResult::default() };
    let delay = u64::from(role.delay_us) * 1000;
    if role.hz == 0 {
        sleep_until(Deadline::at_ns(start + delay));
        while now_ns() < end {
            let begun = now_ns();
            call()?;
            record(&mut done, begun);
        }
        done.due = done.calls;
        done.in_time = done.calls;
        done.parts = line.parts()?;
        return Ok(done);
    }
    let (start, period) = (start + delay, NS_PER_S / u64::from(role.hz));
    done.due = end.saturating_sub(start).div_ceil(period);
    let mut release = start;
    while release < end {
        sleep_until(Deadline::at_ns(release));
        let begun = now_ns();
        call()?;
        let finished = record(&mut done, begun);
        // Its deadline is its period's end. Periods that it missed are not made up for.
        done.in_time += u64::from(finished <= release + period);
        release = next_release(start, period, release, finished);
    }
    done.parts = line.parts()?;
    Ok(done)
}

/// The beginning of the first period after `release` that has not passed at `now`.
fn next_release(start: u64, period: u64, release: u64, now: u64) -> u64 {
    (release + period).max(start + now.saturating_sub(start).div_ceil(period) * period)
}

/// Records the call that began at `begun`; the time now.
fn record(result: &mut RoleResult, begun: u64) -> u64 {
    let now = now_ns();
    result.calls += 1;
    if result.latencies.len() < MAX_SAMPLES {
        result.latencies.push(now - begun);
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_client_goes_on_with_the_next_period() {
        assert_eq!(next_release(100, 10, 100, 105), 110);
        assert_eq!(next_release(100, 10, 100, 110), 110);
        assert_eq!(next_release(100, 10, 100, 111), 120);
        assert_eq!(next_release(100, 10, 120, 158), 160);
        // RoleResult before its period began, as clocks may have it.
        assert_eq!(next_release(100, 10, 120, 119), 130);
    }
}
