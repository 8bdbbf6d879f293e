//! Bytes arrive as they were sent.

use super::{Make, pair, pattern, receive, send_all};
use crate::Wait;
use std::io::IoSlice;

/// Pieces of one send arrive in order, whatever the sizes of the receives.
pub fn bytes_cross_in_order(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    let text = b"the quick brown fox jumps over the lazy dog";
    for cut in 0..text.len() {
        let (front, rest) = text.split_at(cut);
        let (middle, back) = rest.split_at(rest.len() / 2);
        let pieces = [IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(middle), IoSlice::new(back)];
        assert_eq!(a.send(&pieces, Wait::Block).unwrap(), text.len());
        assert_eq!(receive(&*b, text.len(), cut.max(1)).unwrap(), text);
    }
    // And back.
    send_all(&*b, text).unwrap();
    assert_eq!(receive(&*a, text.len(), 7).unwrap(), text);
}

/// Messages of one byte, of every size around the powers of two, and of megabytes.
pub fn tiny_and_huge_messages(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    let around = (3..18).flat_map(|power| (1usize << power) - 3..=(1 << power) + 3);
    let sizes: Vec<usize> = (1..80).chain(around).chain([1 << 20, (5 << 20) + 1]).collect();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for &n in &sizes {
                send_all(&*a, &pattern(n, n as u64)).unwrap();
            }
        });
        for &n in &sizes {
            assert!(receive(&*b, n, 1 << 16).unwrap() == pattern(n, n as u64), "{n} octets arrive as sent");
        }
        sender.join().unwrap();
    });
}

/// Both sides send more than fits on the way, at the same time.
pub fn both_directions_at_once(make: Make<'_>) {
    let (_listener, a, b) = pair(make);
    const N: usize = 3 << 20;
    std::thread::scope(|scope| {
        for (stream, seed) in [(&a, 1), (&b, 2)] {
            scope.spawn(move || send_all(&**stream, &pattern(N, seed)).unwrap());
            scope.spawn(move || {
                assert!(receive(&**stream, N, 10_000).unwrap() == pattern(N, 3 - seed));
            });
        }
    });
}
