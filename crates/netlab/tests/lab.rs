//! The lab itself: it is there, it is separate, it shapes, it sorts, and it goes away.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use isorb_netlab::{Lab, LinkSpec, Sorting};
use isorb_rt::net::set_dscp;

const TIMEOUT: Duration = Duration::from_secs(30);

fn spec(rate_kbit: u32, sorting: Sorting) -> LinkSpec {
    LinkSpec { rate_kbit, sorting }
}

/// A connection from the right host to the left one.
fn connection(lab: &Lab) -> (TcpStream, TcpStream) {
    let listener = lab.left().run(|| TcpListener::bind("0.0.0.0:7000")).unwrap().unwrap();
    let address = (lab.left().address(), 7000);
    let near = lab.right().run(move || TcpStream::connect(address)).unwrap().unwrap();
    let (far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (near, far)
}

/// The next datagram. A child that another thread has started may end while this one waits, and a
/// wait with a limit is not taken up again by the system.
fn receive(socket: &UdpSocket) -> usize {
    loop {
        match socket.recv(&mut [0; 2000]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            result => return result.unwrap(),
        }
    }
}

#[test]
fn threads_and_processes_of_both_hosts_reach_each_other() {
    let Some(lab) = Lab::build_or_skip(&spec(100_000, Sorting::one_queue())) else { return };
    let (mut near, mut far) = connection(&lab);
    near.write_all(b"to the left").unwrap();
    let mut text = [0; 11];
    far.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"to the left");

    let shows = |host: &isorb_netlab::Host| {
        let output = host.command("ip").args(["-4", "addr"]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(shows(lab.left()).contains("10.77.0.1/24") && !shows(lab.left()).contains("10.77.0.2/24"));
    assert!(shows(lab.right()).contains("10.77.0.2/24"));
    // A host's loopback is its own.
    let ours = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = ours.local_addr().unwrap();
    assert!(lab.left().run(move || TcpStream::connect(address)).unwrap().is_err());
}

#[test]
fn two_labs_have_the_same_addresses_and_do_not_meet() {
    let Some(one) = Lab::build_or_skip(&spec(10_000, Sorting::one_queue())) else { return };
    let other = Lab::build_or_skip(&spec(10_000, Sorting::one_queue())).unwrap();
    assert_eq!(one.left().address(), other.left().address());
    let _listener = one.left().run(|| TcpListener::bind("0.0.0.0:7001")).unwrap().unwrap();
    let address = (other.left().address(), 7001);
    assert!(other.right().run(move || TcpStream::connect(address)).unwrap().is_err());
}

#[test]
fn the_link_is_not_faster_than_its_rate() {
    let Some(lab) = Lab::build_or_skip(&spec(8_000, Sorting::one_queue())) else { return };
    let (mut near, mut far) = connection(&lab);
    // A megabyte a second.
    const BYTES: usize = 300_000;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&vec![0; BYTES]).unwrap());
        far.read_exact(&mut vec![0; BYTES]).unwrap();
    });
    assert!(start.elapsed() >= Duration::from_millis(280), "{:?}", start.elapsed());
}

#[test]
fn an_urgent_datagram_passes_those_that_wait() {
    const EXPEDITED: u8 = 46;
    let Some(lab) = Lab::build_or_skip(&spec(1_000, Sorting::urgent(EXPEDITED))) else { return };
    // How many came before the urgent one, and how long all were being sent.
    let count_before = |sorting: Sorting| {
        lab.change_link(&spec(1_000, sorting)).unwrap();
        let bind = || UdpSocket::bind("0.0.0.0:0").unwrap();
        let (server, dull, urgent) =
            (lab.left().run(bind).unwrap(), lab.right().run(bind).unwrap(), lab.right().run(bind).unwrap());
        set_dscp(&urgent, EXPEDITED).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let to = (lab.left().address(), server.local_addr().unwrap().port());
        // The neighbours get to know each other first.
        dull.send_to(&[9], to).unwrap();
        receive(&server);
        // 40 packets of 1000 octets are a third of a second on this link, and only the last is
        // urgent.
        let begun = Instant::now();
        for _ in 0..40 {
            dull.send_to(&[0; 1000], to).unwrap();
        }
        urgent.send_to(&[1], to).unwrap();
        let sending = begun.elapsed();
        let mut before = 0;
        while receive(&server) != 1 {
            before += 1;
        }
        (before, sending)
    };
    assert_eq!(count_before(Sorting::one_queue()).0, 40, "one queue keeps the order");
    // The link sends one in 8 ms and two at once: so many may have gone before the urgent one was
    // there.
    let begun = Instant::now();
    let (sorted, gone) = loop {
        let (sorted, sending) = count_before(Sorting::urgent(EXPEDITED));
        let gone = sending.as_millis() / 8 + 5;
        if gone < 30 {
            break (sorted, gone);
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return println!("skipped: this machine does not send 41 datagrams within {sending:?}");
        }
    };
    assert!(sorted <= gone, "{sorted} of 40 came first, and at most {gone} were on their way");
}

#[test]
fn a_link_can_be_unplugged() {
    let Some(lab) = Lab::build_or_skip(&spec(10_000, Sorting::BySocketPriority)) else { return };
    let (mut near, mut far) = connection(&lab);
    lab.set_plugged(false).unwrap();
    near.write_all(b"x").unwrap();
    far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let error = loop {
        match far.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            result => break result.unwrap_err(),
        }
    };
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    lab.set_plugged(true).unwrap();
    far.set_read_timeout(Some(TIMEOUT)).unwrap();
    far.read_exact(&mut [0]).unwrap();
}

#[test]
fn it_goes_away_with_its_owner_even_when_that_panics() {
    let Some(lab) = Lab::build_or_skip(&spec(10_000, Sorting::one_queue())) else { return };
    let name = lab.left().namespace().to_owned();
    let there = || std::path::Path::new(&format!("/run/netns/{name}")).exists();
    assert!(there());
    let panicked = std::thread::spawn(move || {
        let _lab = lab;
        panic!("as a failed test does");
    })
    .join();
    assert!(panicked.is_err() && !there());
}

#[test]
fn what_a_killed_test_left_behind_is_swept() {
    let Some(_lab) = Lab::build_or_skip(&spec(10_000, Sorting::one_queue())) else { return };
    // No process has this id, which is above the kernel's limit; and of ours only this one makes
    // it.
    let left_behind = format!("isorb-lab-{}-0-left", (1 << 22) + std::process::id());
    let file = std::path::Path::new("/run/netns").join(&left_behind);
    let begun = Instant::now();
    // The lab of another process may remove remains meanwhile.
    while !std::process::Command::new("ip").args(["netns", "add", &left_behind]).status().unwrap().success() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{left_behind} cannot be made");
    }
    let _other = Lab::build_or_skip(&spec(10_000, Sorting::one_queue())).unwrap();
    // Or be at it now.
    while file.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{left_behind} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}
