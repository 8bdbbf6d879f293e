//! Helpers of the channel's tests.

pub use isorb_testkit::wait_until;

use isorb_event::{
    Channel, ChannelBuilder, ConsumerQos, Event, Filter, ModuleSet, ProxyPushSupplier, PushConsumer,
};
use std::sync::{Arc, Mutex};

/// A consumer that records each push: type, source and creation time of its events.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Push>>>);

pub type Push = Vec<(i32, i32, u64)>;

impl Log {
    pub fn consumer(&self) -> Arc<dyn PushConsumer> {
        let log = self.0.clone();
        Arc::new(move |events: &[Event<'_>]| {
            let push = events.iter().map(|e| (e.header.event_type, e.header.source, e.header.creation_time));
            log.lock().unwrap().push(push.collect());
        })
    }

    pub fn connect<M: ModuleSet>(&self, channel: &Channel<M>, qos: ConsumerQos) -> ProxyPushSupplier<M> {
        channel.for_consumers().connect(self.consumer(), qos).unwrap()
    }

    pub fn take(&self) -> Vec<Push> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The creation times only.
    pub fn take_times(&self) -> Vec<Vec<u64>> {
        self.take().into_iter().map(|push| push.into_iter().map(|e| e.2).collect()).collect()
    }
}

pub fn event(event_type: i32, source: i32, time: u64) -> Event<'static> {
    Event::new(event_type, source).created(time)
}

pub fn wants(filter: Filter) -> ConsumerQos {
    ConsumerQos::new("test", filter)
}

/// A channel without threads, in virtual time.
pub fn still(config: ChannelBuilder) -> (Channel, Arc<isorb_event::VirtualClock>) {
    let clock = Arc::new(isorb_event::VirtualClock::new());
    let config = config.own_threads(false).clock(Arc::new(clock.clone()));
    (config.build().unwrap(), clock)
}
