//! Connections do not get in each other's way.

use super::{Make, connect, pattern, receive, send_all};
use crate::Wait;
use std::io::IoSlice;
use std::time::Duration;

/// Several connections, as with priority bands: while one is full and unread, the others go on.
pub fn connections_are_independent(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).unwrap();
    let bands: Vec<_> = (0..4).map(|_| connect(&*transport, &*listener)).collect();
    let (stuffed, _unread) = &bands[0];
    let block = vec![1; 1 << 16];
    while stuffed.send(&[IoSlice::new(&block)], Wait::No).is_ok() {}
    for round in 0..50 {
        for (near, far) in &bands[1..] {
            let message = pattern(100 + round, round as u64);
            send_all(&**near, &message).unwrap();
            assert_eq!(receive(&**far, message.len(), 64).unwrap(), message);
            send_all(&**far, &message).unwrap();
            assert_eq!(receive(&**near, message.len(), 64).unwrap(), message);
        }
    }
}

/// Everything is shut down while all are busy: each thread comes to an end, with an error or the
/// end of the stream.
pub fn shutdown_under_load(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).unwrap();
    let connections: Vec<_> = (0..4).map(|_| connect(&*transport, &*listener)).collect();
    std::thread::scope(|scope| {
        for (near, far) in &connections {
            for stream in [near, far] {
                scope.spawn(move || {
                    let block = pattern(3000, 1);
                    while send_all(&**stream, &block).is_ok() {}
                });
                scope.spawn(move || {
                    let mut block = vec![0; 1000];
                    while !matches!(stream.recv(&mut block, Wait::Block), Ok(0) | Err(_)) {}
                });
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        listener.close();
        for (i, (near, far)) in connections.iter().enumerate() {
            if i % 2 == 0 { near.shutdown() } else { far.shutdown() }
        }
    });
}

/// A listener serves many that come and go.
pub fn many_connections_one_after_the_other(make: Make<'_>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).unwrap();
    for i in 0..200u32 {
        let (near, far) = connect(&*transport, &*listener);
        send_all(&*near, &i.to_le_bytes()).unwrap();
        assert_eq!(receive(&*far, 4, 4).unwrap(), i.to_le_bytes());
    }
}
