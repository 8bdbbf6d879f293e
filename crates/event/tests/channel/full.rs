//! A channel that is full says so once, until there is room again.

use crate::common::*;
use isorb_event::{Channel, ConnectError, ConsumerQos, Filter, Limits};
use isorb_rt::log;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// No other test of this program has a channel with this limit.
const LIMIT: usize = 5;

struct Collect(Sender<String>);

impl log::Sink for Collect {
    fn write(&mut self, record: &log::Record<'_>) -> io::Result<()> {
        self.0.send(record.text().to_string()).map_err(io::Error::other)
    }
}

#[test]
fn refusals_at_the_limit_are_said_once_until_there_is_room() {
    let (sender, said) = channel();
    log::set_sink(Box::new(Collect(sender)));
    let limits = Limits { consumers: LIMIT, suppliers: LIMIT, ..Limits::default() };
    let channel = Channel::builder().limits(limits).own_threads(false).build().unwrap();
    let connect = || {
        let qos = ConsumerQos::new("all", Filter::of(20, 0));
        channel.for_consumers().connect(Log::default().consumer(), qos)
    };
    let mut consumers: Vec<_> = (0..LIMIT).map(|_| connect().unwrap()).collect();
    let refused = || assert_eq!(connect().unwrap_err(), ConnectError::TooMany);
    (0..4).for_each(|_| refused());
    drop(consumers.pop());
    consumers.push(connect().unwrap());
    (0..4).for_each(|_| refused());
    let suppliers: Vec<_> = (0..LIMIT).map(|_| channel.for_suppliers().connect().unwrap()).collect();
    (0..4).for_each(|_| assert!(channel.for_suppliers().connect().is_err()));
    assert!(log::flush(Duration::from_secs(60)));
    let said: Vec<String> = said.try_iter().collect();
    let count = |role: &str| {
        let line = format!("the channel has {LIMIT}; raise Limits::{role}");
        said.iter().filter(|text| text.contains(&line)).count()
    };
    assert_eq!((count("consumers"), count("suppliers")), (2, 1), "{said:?}");
    drop((consumers, suppliers));
}
