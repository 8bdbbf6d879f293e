#[path = "../tests/common/mod.rs"]
mod common;
use isorb::{Concurrency, Config};
fn main() {
    let which = std::env::args().nth(1).unwrap_or("connection".into());
    let concurrency = if which == "lane" { Concurrency::Lane } else { Concurrency::Connection };
    let (server, _client, echo, _) = common::pair_with(
        Config { concurrency, ..Config::default() },
        Config { round_trip_timeout_ms: 0, ..Config::default() },
    );
    let mut t = vec![];
    for i in 0..20000 {
        let a = isorb_rt::time::now_ns();
        echo.ping().unwrap();
        if i > 1000 {
            t.push(isorb_rt::time::now_ns() - a);
        }
    }
    t.sort();
    println!("{which} void p50 {} ns p99 {}", t[t.len() / 2], t[t.len() * 99 / 100]);
    let v = vec![1u8; 65536];
    let mut t = vec![];
    for _ in 0..3000 {
        let a = isorb_rt::time::now_ns();
        server.scope(|s| echo.octets_in(s, &v).map(|x| assert_eq!(x.len(), v.len()))).unwrap();
        t.push(isorb_rt::time::now_ns() - a);
    }
    t.sort();
    println!("64K p50 {} ns p99 {}", t[t.len() / 2], t[t.len() * 99 / 100]);
    server.shutdown(true).unwrap();
}
