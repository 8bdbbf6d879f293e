//! The message blocks of a lane, reserved when the lane is created.

use super::{LaneMessages, ThreadpoolLane, ThreadpoolOptions};
use crate::buffers::{LANE_RECEIVES, LANE_SMALL, LaneBlocks, LaneMemory, LaneUpcalls};
use crate::log::warn;
use crate::sched::{LockMemory, ThreadpoolId, checked};
use crate::server::LaneConfig;
use crate::{Orb, Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::sched::{RealTime, lock_range};
use isorb_scope::BufferPool;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Octets of a message's header and service contexts, beside the declared length.
const HEADER_BYTES: usize = 4096;
/// Small blocks for messages that come in pieces and for calls from this process.
const SMALL_BLOCKS: usize = 64;
/// Small blocks for buffered requests, unless the pool asks for a number of requests.
const BUFFERED_BLOCKS: usize = 64;
/// The limit of blocks of one size.
const MOST_BLOCKS: usize = 65_536;

/// Reserves, touches and locks the message blocks of a lane.
///
/// # Errors
/// BAD_PARAM for blocks that exceed `message_limit`, `memory_limit` or the number of blocks;
/// NO_MEMORY when the memory is not there; NO_PERMISSION when the configuration requires locked
/// memory and the system refuses to lock it.
pub(super) fn reserve(
    orb: &Orb,
    id: ThreadpoolId,
    wanted: &ThreadpoolLane,
    rules: LaneConfig,
    options: &ThreadpoolOptions,
    upcall: LaneUpcalls,
) -> Result<LaneMemory> {
    let config = orb.config();
    let settings = &config.real_time;
    // The heap is for requests without a bound.
    let bounded = matches!(upcall, LaneUpcalls::Region(_));
    let by_default = LaneMessages {
        bytes: settings.lane_message_bytes.min(config.message_limit),
        count: if bounded { settings.lane_messages } else { 0 },
    };
    let declared =
        if wanted.messages.is_empty() { std::slice::from_ref(&by_default) } else { &*wanted.messages };
    check(declared, config.message_limit)?;
    let priority = checked(wanted.lane_priority)?;
    let longest = declared.iter().filter(|one| one.count > 0).map(|one| one.bytes).max();
    let blocks = |pool, own, receives, name: String| LaneMemory {
        upcall,
        blocks: Arc::new(LaneBlocks {
            pool,
            priority,
            name: name.into(),
            own,
            receives,
            refused: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            heap_upcalls: AtomicU64::new(0),
        }),
        locked: false,
    };
    let Some(longest) = longest else {
        return Ok(blocks(
            orb.pool().clone(),
            false,
            0,
            format!("the ORB, for lane {priority} of pool {id}"),
        ));
    };
    let receives = LANE_RECEIVES.min(longest + HEADER_BYTES);
    let threads = rules.max_threads();
    let buffered = match (rules.buffer, options.buffering) {
        (Some(limits), Some(requested)) if requested.max_buffered_requests > 0 => limits.requests,
        (Some(limits), _) => limits.requests.min(BUFFERED_BLOCKS),
        (None, _) => 0,
    };
    let mut sizes: Vec<_> = declared.iter().map(|one| (one.bytes + HEADER_BYTES, one.count)).collect();
    sizes.extend([(receives, threads + 1), (LANE_SMALL, SMALL_BLOCKS + 2 * threads + buffered)]);
    let total: usize = sizes.iter().map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
    let list: Vec<_> = declared.iter().map(|one| format!("{} of {} octets", one.count, one.bytes)).collect();
    let name = format!("lane {priority} of pool {id} ({})", list.join(", "));
    if total > config.memory_limit {
        return Err(SystemException::from(Kind::BadParam).detail(format!(
            "{name}: its message blocks take {total} octets, more than memory_limit ({})",
            config.memory_limit
        )));
    }
    let pool = BufferPool::reserved(&sizes).ok_or_else(|| {
        let sentence = format!("{name}: no memory for message blocks of {total} octets (messages)");
        SystemException::from(Kind::NoMemory).detail(sentence)
    })?;
    let mut memory = blocks(pool, true, receives, name);
    memory.locked = lock(orb, &memory.blocks)?;
    Ok(memory)
}

fn check(declared: &[LaneMessages], message_limit: usize) -> Result<()> {
    let bad = |sentence: String| Err(SystemException::from(Kind::BadParam).detail(sentence));
    for LaneMessages { bytes, count } in declared.iter().filter(|one| one.count > 0) {
        if *bytes == 0 || *bytes > message_limit {
            return bad(format!("messages({bytes}, {count}): 1 to {message_limit} octets (message_limit)"));
        }
        if *count > MOST_BLOCKS {
            return bad(format!("messages({bytes}, {count}): at most {MOST_BLOCKS} blocks"));
        }
    }
    Ok(())
}

/// Locks the blocks in memory; whether that was possible.
///
/// # Errors
/// NO_PERMISSION when the configuration requires locked memory.
fn lock(orb: &Orb, blocks: &LaneBlocks) -> Result<bool> {
    let settings = &orb.config().real_time;
    let Some((address, bytes)) = blocks.pool.reserved_range() else { return Ok(false) };
    if settings.mode == RealTime::Off {
        return Ok(false);
    }
    let Err(errno) = lock_range(address, bytes) else { return Ok(true) };
    let name = &blocks.name;
    if settings.mode == RealTime::Require && settings.lock_memory != LockMemory::No {
        let sentence = format!("{name}: cannot lock {bytes} octets in memory: {errno}; raise RLIMIT_MEMLOCK");
        return Err(SystemException::from(Kind::NoPermission).detail(sentence));
    }
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if !LOGGED.swap(true, Relaxed) {
        let hint = "raise RLIMIT_MEMLOCK or grant CAP_IPC_LOCK";
        warn("isorb::pool", format_args!("{name}: {bytes} octets stay unlocked: {errno}; {hint}"));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::server::BufferLimits;

    fn reserved(orb: &Orb, lane: ThreadpoolLane, rules: LaneConfig) -> Result<LaneMemory> {
        reserve(orb, 1, &lane, rules, &ThreadpoolOptions::default(), LaneUpcalls::Region(1024))
    }

    #[test]
    fn blocks_are_reserved_as_declared_or_refused_with_their_sizes() {
        let orb = Orb::with_config(Config { message_limit: 1 << 20, ..Config::default() }).unwrap();
        let rules = LaneConfig { static_threads: 2, ..LaneConfig::default() };
        let lane = || ThreadpoolLane::new(700, 2);
        let memory = reserved(&orb, lane(), rules).unwrap();
        let pool = &memory.blocks.pool;
        assert_eq!((pool.largest(), pool.available(pool.largest())), ((256 << 10) + 4096, 8));
        let memory = reserved(&orb, lane().messages(1 << 20, 2).messages(9000, 3), rules).unwrap();
        let pool = &memory.blocks.pool;
        assert_eq!(
            [1, 9001 + 4096, 100_000].map(|bytes| pool.available(bytes)),
            [SMALL_BLOCKS + 4 + 3 + 3 + 2, 3 + 3 + 2, 2]
        );
        let small = reserved(&orb, lane().messages(100, 1), rules).unwrap();
        assert_eq!((small.blocks.receives, small.blocks.pool.largest()), (4196, 8192));
        let shared = reserved(&orb, lane().messages(256 << 10, 0), rules).unwrap();
        assert!(!shared.blocks.own && Arc::ptr_eq(&shared.blocks.pool, orb.pool()));
        for (bytes, count, part) in [
            (0, 1, "messages(0, 1)"),
            ((1 << 20) + 1, 1, "message_limit"),
            (1, 70_000, "65536"),
            (1 << 20, 300, "memory_limit"),
        ] {
            let error = reserved(&orb, lane().messages(bytes, count), rules).unwrap_err();
            assert_eq!(error.kind, Kind::BadParam);
            assert!(error.detail.unwrap().contains(part), "{part}");
        }
        let rules = LaneConfig { buffer: Some(BufferLimits { requests: 1024, bytes: 1 << 20 }), ..rules };
        let pool = reserved(&orb, lane().messages(4096, 1), rules).unwrap().blocks.pool.clone();
        assert_eq!(pool.available(0), SMALL_BLOCKS + 2 * 3 + BUFFERED_BLOCKS + 3 + 1 + 1);
    }
}
