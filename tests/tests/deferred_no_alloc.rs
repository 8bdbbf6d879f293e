//! After warm-up, replies that servants defer make no heap allocation: over a connection, and for a
//! caller of the same process.

use isorb::{Config, Deferred, Orb, Result, Upcall};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::everyday::*;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Later(SyncSender<Deferred>);

impl Radar for Later {
    fn best<'u>(&'u self, cx: Upcall<'u>) -> Result<TrackView<'u>> {
        // There is room: one call is under way at a time.
        self.0.try_send(cx.defer()?).unwrap();
        Err(Deferred::LATER)
    }
    fn all<'u>(&'u self, _: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        Ok(&[])
    }
    fn draw<'u>(&'u self, _: Upcall<'u>) -> Result<PictureView<'u>> {
        Err(isorb::Kind::NoImplement.into())
    }
    fn paint(&self, _: Upcall<'_>, _: &[TrackView<'_>]) -> Result<i32> {
        Ok(0)
    }
    fn long_text<'u>(&'u self, _: Upcall<'u>, _: u32) -> Result<&'u str> {
        Ok("")
    }
    fn slow<'u>(
        &'u self,
        _: Upcall<'u>,
        _: u32,
        _: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        Ok(("", 0))
    }
    fn wait_ms(&self, _: Upcall<'_>, _: u32) -> Result<u32> {
        Ok(0)
    }
    fn notify(&self, _: Upcall<'_>, _: Option<&ListenerRef>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn deferred_replies_do_not_allocate() {
    let server = Orb::with_config(Config::default()).unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let (give, take) = sync_channel(4);
    let near: RadarRef = server.root_poa().unwrap().activate(Arc::new(Later(give))).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let far: RadarRef = client.resolve(&near.to_string()).unwrap();
    std::thread::spawn(move || {
        while let Ok(later) = take.recv() {
            radar::reply_best(later, Ok(TrackView { name: "of some length", speed: 3 })).unwrap();
        }
    });
    let round = || {
        for radar in [&near, &far] {
            isorb::generated::call_scope(|scope| {
                assert_eq!(radar.best_in(scope)?.speed, 3);
                Ok::<_, isorb::SystemException>(())
            })
            .unwrap();
        }
    };
    (0..300).for_each(|_| round());
    let before = process_allocations();
    (0..300).for_each(|_| round());
    assert_eq!(process_allocations() - before, 0);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
