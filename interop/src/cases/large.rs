//! Messages of many megabytes, and many threads.

use crate::check::{Check, Run, Stop};
use crate::generated::interop::*;
use crate::types::point;
use crate::{echo, expect};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

fn sum(data: &[u8]) -> u64 {
    data.iter().map(|octet| u64::from(*octet)).sum()
}

pub(super) fn large(run: &Run<'_>) -> Check {
    let o: LargeRef = run.group()?;
    // Around the sizes where ORBs cut fragments, and the 12 MiB of the contract.
    for length in [0, 1, 7, 8100, 8191, 8192, 8193, 65535, 65536, 1 << 20, 12 << 20] {
        let a = pattern(length);
        let mut b = pattern(3);
        let (r, c) = o.echo_octets(&a, &mut b)?;
        expect!(r == a && b == a && c.len() == 3);
        expect!(o.pattern(length as u32)? == a);
        expect!(o.sum(&a)? == sum(&a));
    }
    echo!(o.echo_string, ["a".repeat(8185), "b".repeat(1 << 20), String::new()]);
    let doubles: Vec<f64> = (0..131_072).map(|i| f64::from(i) * 0.5).collect();
    echo!(o.echo_doubles, [doubles, vec![]]);
    let colours = [Colour::Red, Colour::Green, Colour::Blue];
    let mixed = |i: usize| Mixed {
        name: "n".repeat(i % 40),
        paint: colours[i % 3],
        at: point(i as i32, -(i as i32)),
        tail: i as u8,
    };
    echo!(o.echo_mixeds, [(0..20_000).map(mixed).collect::<Vec<_>>(), vec![]]);
    Ok(())
}

pub(super) fn parallel(run: &Run<'_>) -> Check {
    let o: LargeRef = run.group()?;
    let calls = |t: u32| -> Check {
        for i in 0..40 {
            let length = if i % 2 == 1 { 16 + t } else { 60_000 + 1000 * t + i };
            let data = o.pattern(length)?;
            let want = pattern(length as usize);
            if data != want || o.sum(&data)? != sum(&want) {
                return Err(Stop::Fail("an answer belongs to another call".into()));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || calls(t))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Stop::Fail("a thread panicked".into())))
        })
    })
}
