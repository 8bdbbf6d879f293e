//! The hand-over between polling and sleeping in every interleaving: no octet is forgotten, whether
//! its ring was polled, armed or about to be armed. Each thread here does what a lane's does.

use super::*;
use isorb_transport::Spin;
use loom::sync::atomic::{AtomicU32, fence};
use loom::sync::{Arc as Loomed, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// A poller of one connection.
#[derive(Debug, Default)]
struct Poller {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Poller {
    fn report(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_one();
    }

    fn close(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    /// `false` when it is closed. Loom reports a wait that nothing ends.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        while !state.0 && !state.1 {
            state = self.changed.wait(state).unwrap();
        }
        std::mem::take(&mut state.0)
    }
}

/// A connection with messages that carry nothing.
#[derive(Debug)]
struct Connection {
    poller: Loomed<Poller>,
    sent: AtomicU32,
    taken: AtomicU32,
    /// Odd where the peer is to signal, once for each value.
    announced: AtomicU32,
    /// The value that the peer has signalled last.
    rung: AtomicU32,
    /// The last announcement, and whether it stands.
    announcing: Mutex<(u32, bool)>,
    owner: Turn,
    owned: AtomicU32,
}

impl Connection {
    /// As the peer sends: octets, a fence, a look at the announcement.
    fn send(&self) {
        self.sent.fetch_add(1, Release);
        fence(SeqCst);
        let announced = self.announced.load(Acquire);
        if announced % 2 == 1 && announced != self.rung.load(Relaxed) {
            self.rung.store(announced, Relaxed);
            self.poller.report();
        }
    }
}

impl Polled for Connection {
    fn set_polled(&self, _: bool) {}
    fn is_polled(&self) -> bool {
        true
    }
    fn ready(&self) -> bool {
        self.sent.load(Acquire) != self.taken.load(Acquire)
    }
    fn arm(&self) -> bool {
        let mut announcing = self.announcing.lock().unwrap();
        if !announcing.1 {
            *announcing = (announcing.0 + 2, true);
            self.announced.store(announcing.0 + 1, Release);
            fence(SeqCst);
        }
        !self.ready()
    }
    fn disarm(&self) {
        let mut announcing = self.announcing.lock().unwrap();
        announcing.1 = false;
        self.announced.store(announcing.0, Release);
    }
    fn reported(&self, _: bool) {
        self.disarm();
    }
    fn polls_from(&self, _: u32) -> bool {
        // Loom has no time: each wait is one look.
        false
    }
    fn take_woke(&self) -> bool {
        false
    }
    fn spin(&self) -> Spin {
        Spin::default()
    }
}

impl Ring for Connection {
    fn ring(&self) -> Option<&dyn Polled> {
        (self.owned.load(SeqCst) == 0).then_some(self)
    }
    fn leaves(&self) -> bool {
        false
    }
    fn leave(&self) {}
    fn report(&self) {
        self.poller.report();
    }
}

struct Lane {
    watch: RingWatch<Connection>,
    connection: Arc<Connection>,
    poller: Loomed<Poller>,
    messages: u32,
    served: AtomicU32,
}

impl Lane {
    fn new(several: bool, messages: u32) -> Loomed<Lane> {
        let poller = Loomed::<Poller>::default();
        let connection = Arc::new(Connection {
            poller: poller.clone(),
            sent: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            announced: AtomicU32::new(0),
            rung: AtomicU32::new(0),
            announcing: Mutex::new((0, false)),
            owner: Turn::new(),
            owned: AtomicU32::new(0),
        });
        let watch = RingWatch::new(several);
        watch.add(&connection, &*connection);
        Loomed::new(Lane { watch, connection, poller, messages, served: AtomicU32::new(0) })
    }

    fn run(&self) {
        loop {
            match self.watch.poll(Deadline::NONE, || None::<()>) {
                Some(Ready::Ring(connection)) => self.serve(&connection),
                Some(Ready::Event(())) => unreachable!("it has none"),
                None if !self.poller.wait() => return,
                None => {
                    self.connection.reported(false);
                    self.serve(&self.connection);
                }
            }
        }
    }

    fn pass(&self, connection: &Connection) -> bool {
        connection.owned.store(0, SeqCst);
        let passed = connection.owner.pass();
        if !passed {
            connection.owned.store(1, SeqCst);
        }
        passed
    }

    /// As a lane that releases the connection before it runs a request.
    fn serve(&self, connection: &Connection) {
        if !connection.owner.take() {
            // Loom lets a thread see an old value for ever, unless it yields.
            thread::yield_now();
            return;
        }
        connection.owned.store(1, SeqCst);
        loop {
            if !connection.ready() {
                if self.pass(connection) {
                    return;
                }
                continue;
            }
            connection.taken.fetch_add(1, SeqCst);
            if !self.watch.several {
                self.run_request();
                connection.disarm();
                continue;
            }
            while !self.pass(connection) {}
            rearm(connection);
            self.run_request();
            // The reply: this thread polls again soon.
            connection.disarm();
            return;
        }
    }

    fn run_request(&self) {
        if self.served.fetch_add(1, Relaxed) + 1 == self.messages {
            self.poller.close();
        }
    }
}

fn model(threads: usize, messages: u32) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let lane = Lane::new(threads > 1, messages);
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let lane = lane.clone();
                thread::spawn(move || lane.run())
            })
            .collect();
        let client = lane.clone();
        let client = thread::spawn(move || (0..messages).for_each(|_| client.connection.send()));
        lane.run();
        client.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(lane.served.load(Relaxed), messages);
    });
}

#[test]
fn loom_a_lane_of_one_thread_forgets_no_ring() {
    model(1, 2);
}

#[test]
fn loom_a_lane_of_two_threads_forgets_no_ring() {
    model(2, 2);
}
