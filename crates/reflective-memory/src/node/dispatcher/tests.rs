//! Dispatching threads with real sockets.

use super::*;
use crate::agents::{GROUP, Guarantee, Mode, PushSpec, ReceiveSpec};
use crate::memory::{Geometry, Segment};
use crate::wire::{Channel, Datagram};
use isorb_rt::clock_sync::RoundTrips;
use isorb_rt::sched::{Cpus, current_cpus, set_current_cpus};
use std::time::Duration;

fn config() -> DispatcherConfig {
    DispatcherConfig {
        udp: SocketAddr::from(([127, 0, 0, 1], 0)),
        second: None,
        multicast: None,
        scheduler: SchedulerConfig {
            pushes: 8,
            receives: 8,
            heartbeat_ns: 20_000_000,
            refresh_ns: 100_000_000,
            link_bytes_per_s: 0,
        },
        class: SchedClass::Other,
        marks: crate::agents::Marks::default(),
        common_clock: None,
    }
}

#[test]
fn a_value_crosses_real_sockets() {
    crosses(None);
}

#[test]
fn a_value_crosses_where_another_thread_takes_it_in() {
    crosses(Some(SchedClass::Other));
}

fn crosses(best_effort: Option<SchedClass>) {
    let config = config();
    let near = Dispatcher::start_with(&config, 0, best_effort, None).unwrap();
    let far = Dispatcher::start_with(&config, 1, best_effort, None).unwrap();
    let geometry = Geometry::new(100_000, 2).unwrap();
    let source = Segment::create("source", geometry).unwrap();
    let replica = Segment::create("replica", geometry).unwrap();
    let id = far.reserve().unwrap();
    let channel = Channel { id, epoch: 1, token: 77, size: 100_000, fragment: 8192, parity: 4 };
    let spec = ReceiveSpec {
        channel,
        peer: near.address(),
        target: replica.writer().unwrap(),
        fresh_ns: None,
        silence_ns: 60_000_000_000,
        second: None,
        deadline_ns: None,
        clock: RoundTrips::default(),
    };
    far.add_receive(ReceiveAgent::new(spec).unwrap(), None).unwrap();
    let doorbell = Doorbell::new(5).unwrap();
    let spec = PushSpec {
        channel,
        to: far.address(),
        second: None,
        source: source.reader().unwrap(),
        mode: Mode::OnWrite,
        guarantee: None,
        rate: 0,
        burst: 0,
    };
    let push = near.add_push(PushAgent::new(spec).unwrap()).unwrap();
    near.subscribe(push, &doorbell).unwrap();
    let mut writer = source.writer().unwrap();
    let mut reader = replica.reader().unwrap();
    let mut value = vec![0; 100_000];
    for n in 1..=20u8 {
        let expected = vec![n; 100_000 - usize::from(n)];
        writer.write(&expected).unwrap();
        rustix::io::write(&doorbell, &1u64.to_ne_bytes()).unwrap();
        // The refresh sends lost datagrams again.
        reader.wait(Deadline::after(Duration::from_secs(60))).unwrap();
        let sample = reader.latest(&mut value).unwrap();
        assert_eq!((sample.source, &value[..sample.len]), (u64::from(n), &expected[..]));
    }
    assert!(near.push_stats(push).unwrap().datagrams > 20 * 12);
    assert!(far.receive_stats(id).unwrap().shown >= 20);
}

/// Best effort waits for room in its socket again when the last guaranteed channel has ended.
#[test]
fn a_guaranteed_channel_that_has_ended_leaves_nothing_behind() {
    let near = Dispatcher::start_with(&config(), 0, None, None).unwrap();
    let source = Segment::create("source", Geometry::new(64, 2).unwrap()).unwrap();
    let agent = |number, is_guaranteed| {
        let guarantee =
            Guarantee { period_ns: 1 << 30, deadline_ns: 1 << 30, promotion_ns: 0, cost_ns: 1 << 20 };
        let spec = PushSpec {
            channel: Channel { id: number, epoch: 1, token: 77, size: 64, fragment: 64, parity: 0 },
            to: near.address(),
            second: None,
            source: source.reader().unwrap(),
            mode: Mode::OnWrite,
            guarantee: Some(guarantee).filter(|_| is_guaranteed),
            rate: 0,
            burst: 0,
        };
        near.add_push(PushAgent::new(spec).unwrap())
    };
    let plain = agent(1, false).unwrap();
    assert!(!near.shared.has_guaranteed());
    let sure = [2, 3].map(|number| agent(number, true).unwrap());
    near.remove_push(plain).unwrap();
    near.remove_push(sure[0]).unwrap();
    assert!(near.remove_push(sure[0]).is_none() && near.shared.has_guaranteed());
    near.remove_push(sure[1]).unwrap();
    assert!(!near.shared.has_guaranteed());
    // One that finds no room was not added.
    let all: Vec<_> = (10..).map_while(|number| agent(number, number > 17).ok()).collect();
    assert!(!all.is_empty() && !near.shared.has_guaranteed(), "{}", all.len());
}

/// How datagrams of a guaranteed channel arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// To one node or to a group, at a socket of the channel's own or at the common one.
    Port,
    CommonPort,
    Group,
    CommonGroup,
}

/// A replica with room for all values of the test, its agent in a dispatcher, and its address.
fn replica(far: &Dispatcher, peer: SocketAddr, deadline_ns: u64, by: By) -> (Segment, Channel, SocketAddr) {
    let segment = Segment::create("replica", Geometry::new(64, MANY as usize).unwrap()).unwrap();
    let id = match by {
        By::Port | By::CommonPort => far.reserve().unwrap(),
        By::Group | By::CommonGroup => GROUP | deadline_ns as u32,
    };
    let channel = Channel { id, epoch: 1, token: 77, size: 64, fragment: 64, parity: 0 };
    let spec = ReceiveSpec {
        channel,
        peer,
        target: segment.writer().unwrap(),
        fresh_ns: None,
        silence_ns: 60_000_000_000,
        second: None,
        deadline_ns: Some(deadline_ns),
        clock: RoundTrips::default(),
    };
    let agent = ReceiveAgent::new(spec).unwrap();
    let to = match by {
        By::Port | By::CommonPort => {
            let receive_socket = (by == By::Port).then(|| far.open_receive_socket().unwrap());
            let port = receive_socket
                .as_ref()
                .map_or(far.address().port(), |receive_socket| receive_socket.ports()[0]);
            far.add_receive(agent, receive_socket).unwrap();
            SocketAddr::new(far.address().ip(), port)
        }
        By::Group => {
            let to = far.groups().unwrap().guaranteed_group("area", id);
            far.join(agent, Some(ReceiveSocket::of(far.groups().unwrap().open_guaranteed(to).unwrap())))
                .unwrap();
            to
        }
        By::CommonGroup => {
            let to = far.groups().unwrap().of("area");
            far.groups().unwrap().join(to).unwrap();
            far.join(agent, None).unwrap();
            to
        }
    };
    (segment, channel, to)
}

const MANY: u64 = 100;

/// A datagram with a whole value. The sender's clock runs a thousand times too fast, so each
/// datagram seems to travel faster than the one before, and the value's age begins at its arrival.
fn send(peer: &UdpSocket, channel: &Channel, to: SocketAddr, push: u64) {
    let mut head = [0; HEADER];
    let (channel, epoch, token) = (channel.id, channel.epoch, channel.token);
    let (written_ns, sent_ns) = (push << 40, push << 40);
    let value = Datagram { written_ns, sent_ns, size: 4, writer: 1, ..Datagram::default() };
    Datagram { channel, epoch, token, push, sequence: push, ..value }.write_head(&mut head);
    peer.send_to(&[&head[..], b"news"].concat(), to).unwrap();
}

/// How many of a hundred earlier values become visible before the urgent one.
fn shown_before_the_urgent_one(by: By) -> usize {
    let free = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let multicast = Some(SocketAddr::from(([239, 255, 77, 1], free)));
    let far = Dispatcher::start(&DispatcherConfig { multicast, ..config() }, 0, 1).unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_ip_multicast_if(&peer, &std::net::Ipv4Addr::LOCALHOST).unwrap();
    let from = peer.local_addr().unwrap();
    let (plenty, many, many_at) = replica(&far, from, 100_000_000, by);
    let (alarm, one, one_at) = replica(&far, from, 1_000_000, by);
    {
        // All datagrams arrive while the thread is held up.
        let _held = far.shared.agents.lock();
        (1..=MANY).for_each(|push| send(&peer, &many, many_at, push));
        send(&peer, &one, one_at, 1);
    }
    let (mut plenty, mut alarm, mut out) = (plenty.reader().unwrap(), alarm.reader().unwrap(), [0; 64]);
    let timeout = Deadline::after(Duration::from_secs(60));
    while alarm.sequence() < 1 || plenty.sequence() < MANY {
        assert!(!timeout.is_past(), "{} of {MANY}, {}", plenty.sequence(), alarm.sequence());
        std::thread::sleep(Duration::from_millis(1));
    }
    // The time of writing counts as the time of receipt.
    let at = alarm.latest(&mut out).unwrap().written_ns;
    let written = |back: u64| plenty.history(back as usize, &mut out).unwrap().written_ns;
    (0..MANY).map(written).filter(|written| *written < at).count()
}

#[test]
fn a_guaranteed_channel_does_not_wait_behind_less_urgent_ones() {
    for (own, common) in [(By::Port, By::CommonPort), (By::Group, By::CommonGroup)] {
        let before = shown_before_the_urgent_one(own);
        assert!(before <= 2 * AT_ONCE, "{before} of {MANY}");
        let control = shown_before_the_urgent_one(common);
        assert_eq!(control as u64, MANY, "at one socket they are taken in in order of arrival");
    }
}

#[test]
fn a_value_that_another_thread_took_in_becomes_stale_in_time() {
    // No other event wakes the dispatching thread: its next timer is an hour away.
    let far = Dispatcher::start_with(&config(), 0, Some(SchedClass::Other), None).unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let segment = Segment::create("replica", Geometry::new(64, 1).unwrap()).unwrap();
    let id = far.reserve().unwrap();
    let channel = Channel { id, epoch: 1, token: 77, size: 64, fragment: 64, parity: 0 };
    let spec = ReceiveSpec {
        channel,
        peer: peer.local_addr().unwrap(),
        target: segment.writer().unwrap(),
        fresh_ns: Some(20_000_000),
        silence_ns: 3_600_000_000_000,
        second: None,
        deadline_ns: None,
        clock: RoundTrips::default(),
    };
    far.add_receive(ReceiveAgent::new(spec).unwrap(), None).unwrap();
    send(&peer, &channel, far.address(), 1);
    let timeout = Deadline::after(Duration::from_secs(60));
    while far.receive_stats(id).unwrap().stale == 0 {
        assert!(!timeout.is_past(), "{:?}", far.receive_stats(id));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// On one processor, a real-time thread below the dispatching one receives a guaranteed value while
/// an earlier best-effort datagram waits in its socket. Returns whether the best-effort value was
/// visible by then.
fn best_effort_went_first(best_effort: Option<SchedClass>) -> bool {
    let cpu = Cpus::one(current_cpus().unwrap().iter().next().unwrap());
    // The dispatcher's threads inherit the processor.
    set_current_cpus(&cpu).unwrap();
    let config = DispatcherConfig { class: SchedClass::Fifo(20), ..config() };
    let far = Dispatcher::start_with(&config, 0, best_effort, None).unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = peer.local_addr().unwrap();
    let (news, many, many_at) = replica(&far, from, 100_000_000, By::CommonPort);
    let (alarm, one, one_at) = replica(&far, from, 1_000_000, By::Port);
    let (news, alarm) = (news.reader().unwrap(), alarm.reader().unwrap());
    let timeout = Deadline::after(Duration::from_secs(60));
    send(&peer, &many, many_at, 1);
    send(&peer, &one, one_at, 1);
    // Without yielding the processor.
    while alarm.sequence() == 0 {
        assert!(!timeout.is_past(), "the guaranteed value is not shown");
    }
    let went_first = news.sequence() > 0;
    while news.sequence() == 0 {
        assert!(!timeout.is_past(), "best effort is never taken in");
        std::thread::sleep(Duration::from_millis(1));
    }
    went_first
}

#[test]
fn a_real_time_reader_does_not_wait_for_best_effort() {
    let reader = ThreadSpec::new("reader").class(SchedClass::Fifo(10));
    let seen = reader.spawn(|| [best_effort::class(SchedClass::Fifo(20)), None].map(best_effort_went_first));
    let Ok(seen) = seen else {
        return println!("skipped: no right to real-time scheduling here");
    };
    assert_eq!(seen.join().unwrap(), [false, true], "with a thread of its own, and without");
}
