//! The control: the hand-overs of reflective memory, and nothing else. Producer, sending thread,
//! receiving thread, consumer.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};

use super::echo::{Echo, STAMP, stamped};
use super::site::{ReadySubject, Sender, Site, Threads};
use crate::experiments::BenchError;

/// Octets of a value in a datagram.
const PIECE: usize = 1384;
/// Values that wait for the sending thread, and for a consumer. Beyond, they are lost.
const PLACES: usize = 256;

/// One high producer and `low` ones, all over one socket, in order of arrival.
pub fn wire(site: &Site<'_>, low: u32, size: usize, echo: &Echo) -> Result<ReadySubject, BenchError> {
    let (left, right) = (site.lab.left().address(), site.lab.right().address());
    let from = site.left(|| Ok(UdpSocket::bind((left, 0))?))?;
    let to = site.right(|| Ok(UdpSocket::bind((right, 0))?))?;
    from.connect(to.local_addr()?)?;
    to.set_read_timeout(Some(Duration::from_millis(250)))?;
    let mut held = Threads::default();
    let mut consumers = Vec::new();
    for pair in 0..=low {
        let (give, take) = sync_channel::<[u8; STAMP]>(PLACES);
        let class = if pair == 0 { site.class(0) } else { SchedClass::Other };
        let echo = echo.clone();
        let consume = move || take.iter().for_each(|stamp| echo.back(&stamp));
        held.all.push(site.right(|| spawn(&format!("bare-{pair}"), class, consume))?);
        consumers.push(give);
    }
    let stop = held.stop.clone();
    let receiving =
        site.right(|| spawn("receive", site.class(1), move || receive(&to, size, &consumers, &stop)))?;
    // Before its consumers, which end when it has dropped their channels.
    held.all.insert(0, receiving);
    let (give, take) = sync_channel::<Vec<u8>>(PLACES);
    let stop = held.stop.clone();
    held.all.insert(0, site.left(|| spawn("send", site.class(1), move || send(&from, &take, &stop)))?);
    let sender = |_| -> Sender {
        let give = give.clone();
        Box::new(move |value: &[u8]| drop(give.try_send(value.to_vec())))
    };
    Ok(ReadySubject {
        senders: (0..=low).map(sender).collect(),
        elsewhere: None,
        held: Box::new(held),
        counts: None,
    })
}

fn spawn(name: &str, class: SchedClass, f: impl FnOnce() + Send + 'static) -> Result<Thread<()>, BenchError> {
    ThreadSpec::new(name).class(class).spawn(f).map_err(BenchError::Thread)
}

fn send(from: &UdpSocket, values: &Receiver<Vec<u8>>, stop: &AtomicBool) {
    let mut piece = [0; STAMP + PIECE];
    while !stop.load(Ordering::Acquire) {
        let value = match values.recv_timeout(Duration::from_millis(250)) {
            Ok(value) => value,
            Err(RecvTimeoutError::Timeout) => continue,
            // All producers have ended.
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for part in value.chunks(PIECE) {
            // Each piece names its producer.
            piece[..STAMP].copy_from_slice(value.first_chunk::<STAMP>().unwrap_or(&[0; STAMP]));
            piece[STAMP..STAMP + part.len()].copy_from_slice(part);
            let _ = from.send(&piece[..STAMP + part.len()]);
        }
    }
}

fn receive(to: &UdpSocket, size: usize, consumers: &[SyncSender<[u8; STAMP]>], stop: &AtomicBool) {
    let mut piece = [0; 2048];
    let mut filled = vec![(0, 0); consumers.len()];
    while !stop.load(Ordering::Acquire) {
        let Ok(octets) = to.recv(&mut piece) else { continue };
        let Some(stamp) = stamped(&piece[..octets]) else { continue };
        let (at, pair) = (stamp.at_ns, usize::from(stamp.pair));
        let (Some(filled), Some(consumer)) = (filled.get_mut(pair), consumers.get(pair)) else { continue };
        if filled.0 != at {
            *filled = (at, 0);
        }
        filled.1 += octets - STAMP;
        if filled.1 == size
            && let Some(stamp) = piece.first_chunk()
        {
            let _ = consumer.try_send(*stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::echo::stamp;
    use super::*;

    #[test]
    fn only_whole_values_reach_their_consumer() {
        let to = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let from = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        from.connect(to.local_addr().expect("it is bound")).expect("loopback is there");
        to.set_read_timeout(Some(Duration::from_millis(20))).expect("it is not zero");
        let (give, take) = sync_channel(4);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| receive(&to, 20, &[give], &stop));
            let mut piece = [0; STAMP + 10];
            stamp(&mut piece, 0, 0);
            let _ = from.send(&piece);
            // Another value begins before the first is complete; and one of an unknown producer.
            std::thread::sleep(Duration::from_millis(1));
            stamp(&mut piece, 0, 0);
            let whole = stamped(&piece);
            for _ in 0..2 {
                let _ = from.send(&piece);
            }
            stamp(&mut piece, 9, 0);
            let _ = from.send(&piece);
            let seen = take.recv_timeout(Duration::from_secs(20)).expect("one is whole");
            assert_eq!(stamped(&seen), whole);
            stop.store(true, Ordering::Release);
        });
        assert!(take.try_recv().is_err(), "only one was");
    }
}
