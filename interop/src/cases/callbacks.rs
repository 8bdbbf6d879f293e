//! Oneways, calls back, time-outs.

use crate::check::{Check, Run, Stop};
use crate::generated::interop::*;
use crate::servants::Receiving;
use crate::{expect, expect_err};
use isorb::poa::ObjectId;
use isorb::{Kind, Policies, Reference, SystemException};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Whether it becomes true within the time of a slow machine.
fn eventually(mut condition: impl FnMut() -> Check<bool>) -> Check<bool> {
    for _ in 0..1000 {
        if condition()? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    condition()
}

pub(super) fn oneways(run: &Run<'_>) -> Check {
    let o: OnewaysRef = run.group()?;
    o.reset()?;
    let data = vec![1; 1000];
    for i in 0..100 {
        o.ping()?;
        o.add(i)?;
        o.send(&data)?;
    }
    let want = 100 + 4950 + 100_000;
    eventually(|| Ok(o.total()? == want))?;
    expect!(o.total()? == want);
    Ok(())
}

fn call_back(run: &Run<'_>) -> Check {
    let o: CallbacksRef = run.group()?;
    let poa = run.orb.root_poa()?;
    let servant = Arc::new(Receiving::default());
    let receiver: ReceiverRef = poa.activate(servant.clone())?;
    expect!(o.call_back(&receiver, "hello", 10)? == 10);
    expect!(o.call_back(&receiver, &"z".repeat(20_000), 2)? == 2);
    o.poke_back(&receiver, 4711)?;
    expect!(eventually(|| Ok(servant.poked.load(SeqCst) == 4711))?);
    let id: ObjectId = poa.reference_to_id(receiver.object())?;
    poa.deactivate_object(&id)?;
    Ok(())
}

pub(super) fn callbacks(run: &Run<'_>) -> Check {
    if run.options.bidir {
        return Err(Stop::Skip("under --bidir the same is case bidirectional".into()));
    }
    call_back(run)
}

pub(super) fn bidirectional(run: &Run<'_>) -> Check {
    call_back(run)
}

pub(super) fn timeouts(run: &Run<'_>) -> Check {
    let o: SlowRef = run.group()?;
    expect!(o.sleep_ms(0)? == 0);
    let limit = Some(Duration::from_millis(300));
    let policies = Policies { round_trip_timeout: limit, ..Policies::default() };
    let impatient: SlowRef = o.object().with_policies(policies).unchecked_narrow();
    let start = Instant::now();
    expect_err!(impatient.sleep_ms(3000), exception if exception.kind == Kind::Timeout);
    expect!(start.elapsed() >= Duration::from_millis(290));
    expect!(o.sleep_ms(20)? == 20);
    Ok(())
}

/// Calls that one thread begins and then waits for, all on one connection: the reply to the first
/// one is the last.
pub(super) fn interleaving(run: &Run<'_>) -> Check {
    let o: SlowRef = run.other_group("timeouts")?;
    // As many as a connection takes. A machine that is busy tells nothing with the first time.
    for longest in [500, 4000, 16_000] {
        let mut first = o.sleep_ms_begin(longest)?;
        let others = (1..64).map(|i| Ok((i % 20, o.sleep_ms_begin(i % 20)?)));
        let others: Vec<_> = others.collect::<Result<_, SystemException>>()?;
        for (ms, call) in others.into_iter().rev() {
            expect!(call.wait()? == ms);
        }
        let overtaken = first.try_wait().is_none();
        if overtaken {
            expect!(first.wait()? == longest);
            return Ok(());
        }
    }
    Err(Stop::Fail("the calls of a connection are served one after the other".into()))
}
