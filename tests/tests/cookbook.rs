//! The code of docs/guides/cookbook.md, compiled and run.

use isorb::rt::PiMutex;
use isorb::{Completion, Config, Kind, Orb, Policies, Reference, Result, SystemException, Upcall, each};
use isorb_tests::everyday::*;
use std::sync::Arc;
use std::time::Duration;

struct Site {
    home: Track,
    seen: PiMutex<Vec<Track>>,
}

impl Radar for Site {
    fn best<'u>(&'u self, cx: Upcall<'u>) -> Result<TrackView<'u>> {
        let seen = self.seen.lock();
        match seen.iter().max_by_key(|track| track.speed) {
            // The view would end with the guard, so its text is copied to the memory of the upcall.
            Some(track) => Ok(TrackView { name: cx.str(&track.name)?, speed: track.speed }),
            None => Ok(self.home.view()),
        }
    }

    fn all<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        cx.give(self.seen.lock().clone())
    }

    fn paint(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<i32> {
        let mut all = self.seen.lock();
        all.extend(seen.iter().map(|track| Track { name: track.name.into(), speed: track.speed }));
        Ok(all.len() as i32)
    }

    fn notify(&self, _: Upcall<'_>, who: Option<&ListenerRef>) -> Result<()> {
        who.ok_or(Kind::BadParam)?.noticed("a track")
    }

    fn wait_ms(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        std::thread::sleep(Duration::from_millis(ms.into()));
        Ok(ms)
    }

    fn draw<'u>(&'u self, _: Upcall<'u>) -> Result<PictureView<'u>> {
        Err(Kind::NoImplement.into())
    }

    fn long_text<'u>(&'u self, _: Upcall<'u>, _: u32) -> Result<&'u str> {
        Err(Kind::NoImplement.into())
    }

    fn slow<'u>(
        &'u self,
        _: Upcall<'u>,
        _: u32,
        _: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        Err(SystemException::from(Kind::NoImplement).into())
    }
}

fn report(radar: &RadarRef, names: &[&str]) -> Result<i32> {
    radar.paint(each(names.iter().map(|name| TrackView { name, speed: 0 })))
}

fn within(radar: &RadarRef, limit: Duration) -> RadarRef {
    let policies = Policies { round_trip_timeout: Some(limit), ..Policies::default() };
    radar.object().with_policies(policies).unchecked_narrow()
}

fn persistently<T>(attempts: u32, mut call: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pause = Duration::from_millis(10);
    for _ in 1..attempts {
        match call() {
            Err(e)
                if e.completed == Completion::No
                    && [Kind::Transient, Kind::CommFailure].contains(&e.kind) =>
            {
                std::thread::sleep(pause);
                pause = (2 * pause).min(Duration::from_secs(1));
            }
            other => return other,
        }
    }
    call()
}

fn near(servant: Site) -> Result<(Orb, RadarRef)> {
    let orb = Orb::builder().build()?;
    let radar: RadarRef = orb.root_poa()?.activate(Arc::new(servant))?;
    orb.root_poa()?.manager().activate()?;
    Ok((orb, radar))
}

#[allow(dead_code, reason = "its port may be taken on the machine of the test")]
fn for_many() -> Result<Orb> {
    let config = Config {
        endpoints: vec!["0.0.0.0:2810;lane=4;publish=radar.example".into()],
        max_connections: 10_000,
        max_peer_connections: 16,
        connection_idle_timeout_ms: 60_000,
        ..Config::default()
    };
    Orb::builder().config(config).build()
}

struct Pilot(PiMutex<Vec<String>>);

impl Listener for Pilot {
    fn noticed(&self, _: Upcall<'_>, what: &str) -> Result<()> {
        self.0.lock().push(what.to_owned());
        Ok(())
    }
}

fn listen(orb: &Orb, radar: &RadarRef, pilot: &Arc<Pilot>) -> Result<()> {
    let listener: ListenerRef = orb.root_poa()?.activate(pilot.clone())?;
    radar.notify(&listener)
}

fn site() -> Site {
    Site { home: Track { name: "home".into(), speed: 1 }, seen: PiMutex::default() }
}

#[test]
fn the_recipes_work() {
    let (orb, radar) = near(site()).unwrap();
    assert_eq!(radar.best().unwrap().name, "home");
    assert_eq!(report(&radar, &["a", "b"]).unwrap(), 2);
    let all = radar.all().unwrap();
    assert_eq!(all.iter().map(|track| &*track.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(radar.paint(&[Track { name: "c".into(), speed: 9 }]).unwrap(), 3);
    assert_eq!(radar.best().unwrap().name, "c");

    let pilot = Arc::new(Pilot(PiMutex::default()));
    let client = Orb::builder().build().unwrap();
    let far: RadarRef = client.resolve(&radar.to_string()).unwrap();
    listen(&client, &far, &pilot).unwrap();
    assert_eq!(*pilot.0.lock(), ["a track"]);

    let slow = within(&far, Duration::from_millis(20)).wait_ms(5_000).unwrap_err();
    assert_eq!(slow.kind, Kind::Timeout);
    client.shutdown(false).unwrap();
    orb.shutdown(false).unwrap();
}

#[test]
fn only_calls_that_did_not_begin_are_repeated() {
    let failing = |kind: Kind, completed| SystemException::from(kind).completed(completed);
    for (exception, calls) in [
        (failing(Kind::Transient, Completion::No), 3),
        (failing(Kind::CommFailure, Completion::Maybe), 1),
        (failing(Kind::BadParam, Completion::No), 1),
    ] {
        let mut called = 0;
        let outcome: Result<()> = persistently(3, || {
            called += 1;
            Err(exception.clone())
        });
        assert_eq!((outcome.unwrap_err().kind, called), (exception.kind, calls));
    }
}

#[test]
fn the_code_of_the_page_is_the_code_of_this_test() {
    let dense = |text: &str| -> String {
        let text: String = text.split_whitespace().collect();
        text.replace(",)", ")").replace(",}", "}")
    };
    let here = dense(include_str!("cookbook.rs"));
    let page = isorb_testkit::document("guides/cookbook.md");
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 8);
    for block in blocks {
        // rustfmt puts braces around a long arm.
        assert!(here.contains(&dense(block)), "this is not in tests/cookbook.rs:\n{block}");
    }
}
