//! The time of an evaluation, which the program prints: `cargo test --release -p isorb-event --lib
//! content::tests::cost -- --nocapture`.

use super::values::{JSON, payload};
use crate::content::ContentFilter;
use std::hint::black_box;
use std::time::Instant;

#[test]
fn the_time_of_an_evaluation_is_printed() {
    let tc = super::image();
    let octets = payload(&tc, JSON);
    for text in [
        "position.altitude > 300 && id == 7",
        r#"name == "GPS" || (flags & 4) != 0"#,
        "points[1].x == -7",
        "reading.part == 0.5 && valve == half",
        r#"starts_with(wide, "Zü")"#,
    ] {
        let filter = ContentFilter::new(text, &tc).unwrap();
        let mut times: Vec<u128> = (0..200)
            .map(|_| {
                let begin = Instant::now();
                (0..500).for_each(|_| assert!(black_box(&filter).matches(black_box(&octets)).unwrap()));
                begin.elapsed().as_nanos() / 500
            })
            .collect();
        times.sort_unstable();
        println!("{:4} ns (p99 {:4}): {text}", times[times.len() / 2], times[times.len() * 99 / 100]);
    }
}
