//! Messages to groups on the loopback interface.

use super::*;
use crate::Wait;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::sync::mpsc;

fn on_loopback() -> Miop {
    let multicast = Multicast { interface: "lo".into(), ..Multicast::default() };
    // No message is abandoned on a machine that stands still.
    Miop { multicast, age: Duration::from_secs(60), ..Miop::default() }
}

/// A member with a thread, which gives its messages on.
struct Listening {
    member: Arc<Member>,
    messages: mpsc::Receiver<Vec<u8>>,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
}

impl Listening {
    /// `None` where there is no multicast on the loopback interface.
    fn to(miop: &Miop, group: &str) -> Option<Listening> {
        let member = match miop.join(group.parse().unwrap()) {
            Ok(member) => Arc::new(member),
            Err(error) => {
                println!("SKIPPED {group}: {error}");
                return None;
            }
        };
        let (give, messages) = mpsc::channel();
        let (serving, mut memory) = (member.clone(), Memory::new(miop));
        let body = move || serving.serve(&mut memory, |message, _| _ = give.send(message.to_vec()));
        let thread = Some(std::thread::spawn(body));
        Some(Listening { member, messages, thread })
    }

    fn next(&self) -> Vec<u8> {
        self.messages.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.member.close();
        let ended = self.thread.take().unwrap().join().unwrap();
        assert!(ended.is_ok(), "{ended:?}");
    }
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn messages_of_every_length_reach_all_members() {
    for group in ["239.255.78.1:0", "[ff15::78]:0"] {
        let miop = on_loopback();
        let Some(one) = Listening::to(&miop, group) else { continue };
        let at = one.member.group().to_string();
        let other = Listening::to(&miop, &at).unwrap();
        let Ok(stream) = miop.connect(&at, None) else {
            println!("SKIPPED {group}: no way to send");
            continue;
        };
        assert!(stream.capabilities().max_datagram.is_some());
        let piece = miop.piece();
        for length in [1, 7, piece - 1, piece, piece + 1, 3 * piece, miop.message] {
            let message = message(length);
            let (head, tail) = message.split_at(length / 3);
            let pieces = [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)];
            assert_eq!(stream.send(&pieces, Wait::Block).unwrap(), length);
            for member in [&one, &other] {
                assert!(member.next() == message, "{length} octets");
            }
        }
        assert_eq!(miop.counts.now(), GroupStatistics { messages: 14, ..Default::default() });
        let error = stream.send(&[IoSlice::new(&message(miop.message + 1))], Wait::Block).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MSGSIZE.raw_os_error()));
    }
}

#[test]
fn what_is_no_packet_is_counted_and_holds_up_no_other() {
    let miop = on_loopback();
    let Some(one) = Listening::to(&miop, "239.255.78.2:0") else { return };
    let at = one.member.group();
    let hostile = miop.multicast.sender(at).unwrap();
    for rubbish in [&b""[..], b"x", b"GIOP\x01\x02\0\0\0\0\0\0", b"MIOP", b"MIOP\x20\0\0\x01"] {
        hostile.send(rubbish).unwrap();
    }
    // A first packet only, then a message.
    let head = PacketHead { number: 0, count: 2, id: *b"a lone first", length: 1 }.write();
    hostile.send(&[&head[..], b"?"].concat()).unwrap();
    let stream = miop.connect(&at.to_string(), None).unwrap();
    stream.send(&[IoSlice::new(b"good")], Wait::Block).unwrap();
    assert_eq!(one.next(), b"good");
    let counts = miop.counts.now();
    assert_eq!((counts.ignored, counts.messages), (5, 1));
}

#[test]
fn a_sender_receives_nothing_and_a_group_accepts_no_connection() {
    let miop = on_loopback();
    let stream = match miop.connect("239.255.78.3:9", None) {
        Ok(stream) => stream,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    stream.set_recv_timeout(Some(Duration::from_millis(1))).unwrap();
    let would_block = io::ErrorKind::WouldBlock;
    assert_eq!(stream.recv(&mut [0; 9], Wait::No).unwrap_err().kind(), would_block);
    assert_eq!(stream.recv(&mut [0; 9], Wait::Block).unwrap_err().kind(), would_block);
    stream.shutdown();
    assert_eq!(stream.recv(&mut [0; 9], Wait::Block).unwrap(), 0);
    let error = miop.listen("239.255.78.3:9").unwrap_err();
    assert!(error.to_string().contains("associate"), "{error}");
    assert!(miop.connect("127.0.0.1:9", None).is_err() && miop.connect("lab:9", None).is_err());
    let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(miop.join(plain.local_addr().unwrap()).is_err(), "no group");
}
