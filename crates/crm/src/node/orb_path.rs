//! Values through the ORB: slower, and nothing is lost while the writer's area keeps it.
//!
//! The pushing end has an ordinary thread a channel, because a call waits for its peer: one that hangs holds up itself only.

use crate::Error;
use crate::idl::CRM_CommRef;
use crate::memory::{Reader, Source, State, Writer};
use crate::wire::Channel;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A value that does not change is pushed again after so long: it says that the writer's node lives.
const REFRESH: Duration = Duration::from_secs(1);
/// Several refreshes may be late before the node counts as dead.
const SILENCE: Duration = Duration::from_secs(4);

/// Starts the thread of a channel.
pub(super) fn start(
    mut source: Reader,
    channel: Channel,
    reader: CRM_CommRef,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicBool>,
) -> Result<(), Error> {
    let mut value = vec![0; channel.size];
    let work = move || {
        let mut last: Option<(u64, u64, usize)> = None;
        let mut said_ns = 0;
        while !stop.load(Ordering::Acquire) {
            // Looks at `stop` now and then; values wake it.
            let _ = source.wait(Deadline::after(Duration::from_millis(100)));
            if !running.load(Ordering::Acquire) {
                continue;
            }
            let sample = match source.next(&mut value) {
                Ok(Some(sample)) => {
                    last = Some((sample.source, sample.epoch, sample.len));
                    sample
                }
                Ok(None) if now_ns().saturating_sub(said_ns) >= REFRESH.as_nanos() as u64 => {
                    // Nothing new: the same numbers, so that the reader takes it for what it is.
                    if let Some((number, epoch, len)) = last {
                        let _ = reader.push(channel.id, channel.token, number, epoch, 0, &value[..len]);
                    }
                    said_ns = now_ns();
                    continue;
                }
                _ => continue,
            };
            // Until it has arrived, or the channel is closed.
            while !stop.load(Ordering::Acquire) {
                let data = &value[..sample.len];
                let age = sample.age_ns();
                if reader.push(channel.id, channel.token, sample.source, sample.epoch, age, data).is_ok() {
                    said_ns = now_ns();
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    super::named("crm-orb-path", work)?;
    Ok(())
}

/// Replicas that are filled by calls.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    table: PiMutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    replicas: HashMap<u32, Replica>,
    last: u32,
}

#[derive(Debug)]
struct Replica {
    token: u64,
    writer: Writer,
    shown: Option<(u64, u64)>,
    heard_ns: u64,
    gone: bool,
}

impl Replicas {
    /// Gives the number of the channel.
    pub fn add(&self, token: u64, writer: Writer) -> u32 {
        let mut table = self.table.lock();
        table.last = table.last.wrapping_add(1);
        let number = table.last;
        let replica = Replica { token, writer, shown: None, heard_ns: now_ns(), gone: false };
        table.replicas.insert(number, replica);
        number
    }

    pub fn remove(&self, number: u32) {
        self.table.lock().replicas.remove(&number);
    }

    /// Has it fallen silent?
    pub fn is_gone(&self, number: u32) -> bool {
        self.table.lock().replicas.get(&number).is_none_or(|replica| replica.gone)
    }

    /// Shows a value; false where it is not for us or not new.
    pub fn push(&self, number: u32, token: u64, source: u64, epoch: u64, age_ns: u64, data: &[u8]) -> bool {
        let mut table = self.table.lock();
        let Some(replica) = table.replicas.get_mut(&number).filter(|replica| replica.token == token) else {
            return false;
        };
        replica.heard_ns = now_ns();
        if std::mem::take(&mut replica.gone) {
            replica.writer.set_state(State::Open);
        }
        // A call that was made again because its answer was lost shows nothing twice.
        if replica.shown == Some((source, epoch)) || replica.writer.draft().put(0, data).is_err() {
            return false;
        }
        replica.shown = Some((source, epoch));
        let written_ns = now_ns().saturating_sub(age_ns);
        replica.writer.publish_as(data.len(), written_ns, Source { sequence: source, epoch }).is_ok()
    }

    /// Tells the readers of those that have fallen silent.
    pub fn look(&self, silence: Duration) {
        let limit = silence.max(SILENCE).as_nanos() as u64;
        for replica in self.table.lock().replicas.values_mut() {
            if !replica.gone && now_ns().saturating_sub(replica.heard_ns) > limit {
                replica.gone = true;
                replica.writer.set_state(State::WriterGone);
            }
        }
    }
}
