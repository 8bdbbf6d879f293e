//! After warm-up, calls that are begun and waited for, by a thread or as a future, make no heap
//! allocation on either side.

use isorb::rt::ClientLaneOptions;
use isorb::{Config, Result, wait_any};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::serve_with;
use isorb_tests::steady::*;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>, waker: &Waker) -> T {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn round(path: &PathRef, track: &Track, waker: &Waker) -> Result<()> {
    path.ping_begin()?.wait()?;
    let (one, mut two) = (path.level_begin()?, path.ping_begin()?);
    while wait_any(&[&one])? != 0 {}
    one.wait()?;
    while two.try_wait().is_none() {}
    isorb::generated::call_scope(|scope| {
        let call = path.echo_track_begin(track, track)?.into_call()?;
        let (result, new, _) = isorb_tests::steady::path::read_echo_track(call.wait_in(scope)?)?;
        assert_eq!((result.name, new.name), (&*track.name, &*track.name));
        Ok::<_, isorb::SystemException>(())
    })?;
    drop(path.ping_begin()?);
    block_on(path.ping_async(), waker)?;
    let (one, two) = (path.level_begin()?, path.level_begin()?);
    assert_eq!(block_on(one, waker)?, block_on(two, waker)?);
    Ok(())
}

#[test]
fn calls_that_are_begun_do_not_allocate() {
    let config = Config { connections_per_server: 1, ..Config::default() };
    let (server, client, path) = serve_with(config, false);
    client.rt().start_client_lane(&ClientLaneOptions::default()).unwrap();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let track = Track { name: "a name of some length".into(), state: Mode::Run, last: Stamp::default() };
    for _ in 0..300 {
        round(&path, &track, &waker).unwrap();
    }
    let before = process_allocations();
    for _ in 0..300 {
        round(&path, &track, &waker).unwrap();
    }
    assert_eq!(process_allocations() - before, 0);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
