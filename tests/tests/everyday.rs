//! The everyday servant: results from its state, sequences from anything, call-backs without
//! preparation, and what a full scope says.

use isorb::rt::{PiMutex, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Result, Upcall, each, poa::PoaPolicies};
use isorb_tests::everyday::*;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct Scope360 {
    fixed: Track,
    seen: PiMutex<Vec<Track>>,
}

impl Radar for Scope360 {
    fn best<'u>(&'u self, _: Upcall<'u>) -> Result<TrackView<'u>> {
        Ok(self.fixed.view())
    }
    fn all<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        cx.give(self.seen.lock().clone())
    }
    fn draw<'u>(&'u self, cx: Upcall<'u>) -> Result<PictureView<'u>> {
        let picture = cx.keep(Picture { title: "now".into(), tracks: self.seen.lock().clone() })?;
        cx.view(picture)
    }
    fn paint(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<i32> {
        let mut all = self.seen.lock();
        all.extend(seen.iter().map(|track| Track { name: track.name.into(), speed: track.speed }));
        Ok(all.len() as i32)
    }
    fn long_text<'u>(&'u self, cx: Upcall<'u>, octets: u32) -> Result<&'u str> {
        cx.str(&"x".repeat(octets as usize))
    }
    fn slow<'u>(
        &'u self,
        cx: Upcall<'u>,
        ms: u32,
        text: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        std::thread::sleep(Duration::from_millis(ms.into()));
        if text.is_empty() {
            return Err(Refused { why: "empty".into() }.into());
        }
        let old = std::mem::replace(text, cx.format(format_args!("{text}!"))?);
        Ok((old, old.len() as i32))
    }
    fn wait_ms(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        std::thread::sleep(Duration::from_millis(ms.into()));
        Ok(ms)
    }
    fn notify(&self, _: Upcall<'_>, who: Option<&ListenerRef>) -> Result<()> {
        who.ok_or(Kind::BadParam)?.noticed("you")
    }
}

struct Witness(PiMutex<Vec<String>>);

impl Listener for Witness {
    fn noticed(&self, _: Upcall<'_>, what: &str) -> Result<()> {
        self.0.lock().push(what.to_owned());
        Ok(())
    }
}

fn track(name: &str, speed: i32) -> Track {
    Track { name: name.to_owned(), speed }
}

fn pair() -> (Orb, Orb, RadarRef) {
    let server = Orb::with_config(Config::default()).unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let poa = server.root_poa().unwrap();
    let near: RadarRef =
        poa.activate(Arc::new(Scope360 { fixed: track("fix", 1), ..Scope360::default() })).unwrap();
    poa.manager().activate().unwrap();
    let far = client.resolve(&near.to_string()).unwrap();
    (server, client, far)
}

#[test]
fn state_is_returned_as_views() {
    let (server, _client, radar) = pair();
    assert_eq!(radar.best().unwrap(), track("fix", 1));
    let view = TrackView::from(&track("a", 2)).name.len();
    assert_eq!(view, 1);
    radar.paint(&[track("a", 2)]).unwrap();
    assert_eq!(radar.all().unwrap(), [track("a", 2)]);
    assert_eq!(radar.draw().unwrap(), Picture { title: "now".into(), tracks: vec![track("a", 2)] });
    server.shutdown(true).unwrap();
}

#[test]
fn sequences_come_from_arrays_slices_vectors_and_iterators() {
    let (server, _client, radar) = pair();
    let owned = vec![track("a", 1), track("b", 2)];
    assert_eq!(radar.paint(&[owned[0].view(), owned[1].view()]), Ok(2));
    assert_eq!(radar.paint(&[track("c", 3)]), Ok(3));
    assert_eq!(radar.paint(&owned), Ok(5));
    assert_eq!(radar.paint(&owned[1..]), Ok(6));
    assert_eq!(radar.paint(each(&owned)), Ok(8));
    assert_eq!(radar.paint(each(owned.iter().filter(|track| track.speed > 1))), Ok(9));
    let views = (0..3).map(|speed| TrackView { name: "n", speed });
    assert_eq!(radar.paint(each(views)), Ok(12));
    let speeds: Vec<i32> = radar.all().unwrap().iter().map(|track| track.speed).collect();
    assert_eq!(speeds, [1, 2, 3, 1, 2, 2, 1, 2, 2, 0, 1, 2]);
    server.shutdown(true).unwrap();
}

#[test]
fn a_client_is_called_back_without_a_word_on_poa_managers() {
    let (server, client, radar) = pair();
    let witness = Arc::new(Witness(PiMutex::default()));
    let listener: ListenerRef = client.root_poa().unwrap().activate(witness.clone()).unwrap();
    radar.notify(Some(&listener)).unwrap();
    assert_eq!(*witness.0.lock(), ["you"]);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

/// A program that holds requests keeps them held.
#[test]
fn a_manager_that_was_told_to_hold_is_not_activated() {
    let (server, client, radar) = pair();
    let root = client.root_poa().unwrap();
    root.manager().hold_requests(false).unwrap();
    let witness = Arc::new(Witness(PiMutex::default()));
    let listener: ListenerRef = root.activate(witness.clone()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| radar.notify(Some(&listener)).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(witness.0.lock().is_empty());
        root.manager().activate().unwrap();
    });
    assert_eq!(*witness.0.lock(), ["you"]);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn a_full_scope_says_how_much_was_wanted_and_which_setting_gives_more() {
    let (server, client, _) = pair();
    let lane = ThreadpoolLane::new(0, 1);
    let options = ThreadpoolOptions { region_bytes: Some(4096), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane, &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool);
    let poa = server.root_poa().unwrap().create_poa("small", None, policies).unwrap();
    let near: RadarRef = poa.activate(Arc::new(Scope360::default())).unwrap();
    poa.manager().activate().unwrap();
    let radar: RadarRef = client.resolve(&near.to_string()).unwrap();
    // By the servant.
    let full = radar.long_text(5_000).unwrap_err();
    assert_eq!(full.kind, Kind::NoMemory);
    let detail = full.detail.unwrap();
    for word in ["4096 octets", "5000 were wanted", "region_bytes"] {
        assert!(detail.contains(word), "{detail}");
    }
    // By the arguments, before the servant.
    let full = radar.paint(each((0..400).map(|speed| TrackView { name: "n", speed }))).unwrap_err();
    let detail = full.detail.unwrap();
    for word in ["4096 octets", "9600 were wanted", "region_bytes"] {
        assert!(detail.contains(word), "{detail}");
    }
    assert_eq!(radar.long_text(100).unwrap().len(), 100);
    server.shutdown(true).unwrap();
}
