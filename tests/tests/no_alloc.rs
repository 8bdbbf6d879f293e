//! After warm-up the path from stub to servant and back makes no heap allocation, on both sides,
//! for each concurrency model and collocated. Both ORBs are in this process, so the process-wide
//! count covers both.

use isorb::{Concurrency, Config, Result, Scope, TransportConfig};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::allocations::in_steady_state;
use isorb_tests::serve_with;
use isorb_tests::steady::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Arguments {
    track: Track,
    tracks: Vec<Track>,
    stamps: Vec<Stamp>,
    mixeds: Vec<Mixed>,
    table: Vec<Vec<String>>,
    shapes: [Shape; 3],
    picture: Picture,
    small: Vec<u8>,
    large: Vec<u8>,
    unvalued: Unvalued,
}

fn arguments() -> Arguments {
    let stamps: Vec<Stamp> = (0..50).map(|i| Stamp { value: f64::from(i), at: 7 }).collect();
    let track = Track { name: "Überflug".into(), state: Mode::Run, last: stamps[3] };
    let shapes = [
        Shape::Radius(1.5),
        Shape::Text { label: 3, value: "three".into() },
        Shape::Outline { label: 9, value: stamps.clone() },
    ];
    let picture = Picture {
        title: "title".into(),
        drawn: shapes.to_vec(),
        caption: "wide 世界 🦀".into(),
        at: [[1, 2], [3, 4], [5, 6]],
    };
    Arguments {
        tracks: vec![track.clone(); 20],
        track,
        stamps,
        mixeds: vec![Mixed { on: true, value: 2.5, state: Mode::Idle }; 30],
        table: vec![vec!["a".into(), "bb".into()], vec![], vec!["ccc".into()]],
        shapes,
        picture,
        small: vec![1; 100],
        large: vec![2; 100_000],
        unvalued: Unvalued::default(),
    }
}

/// Every operation once, results as views; the checks themselves allocate nothing.
fn round<'s>(path: &PathRef, scope: &'s Scope<'s>, a: &Arguments) -> Result<()> {
    path.ping()?;
    assert_eq!(path.who_in(scope)?, "parrot");
    path.set_level(4)?;
    assert_eq!(path.level()?, 4);
    let mut b = "old";
    assert_eq!(path.text_in(scope, "grüße", &mut b)?, ("grüße", "old"));
    assert_eq!(b, "grüße");
    assert_eq!(path.wide_in(scope, "wide 🦀")?, "wide 🦀");
    let mut b = TrackView { name: "b", state: Mode::Idle, last: a.stamps[0] };
    let (result, c) = path.echo_track_in(scope, &a.track, &mut b)?;
    assert_eq!((result.name, b.name, c.name), (&*a.track.name, &*a.track.name, "b"));
    let mut b: &[TrackView<'_>] = &[];
    let (result, c) = path.echo_tracks_in(scope, &a.tracks, &mut b)?;
    assert_eq!((result.len(), b.len(), c.len(), result[19].name), (20, 20, 0, &*a.track.name));
    let mut b: &[Stamp] = &a.stamps[..5];
    let (result, c) = path.echo_stamps_in(scope, &a.stamps, &mut b)?;
    assert_eq!((result, b, c), (&*a.stamps, &*a.stamps, &a.stamps[..5]));
    assert_eq!(path.echo_mixeds_in(scope, &a.mixeds)?, &*a.mixeds);
    assert_eq!(path.echo_table_in(scope, &a.table)?.len(), 3);
    for shape in &a.shapes {
        let mut b = ShapeView::Radius(0.5);
        let (_, c) = path.echo_shape_in(scope, shape, &mut b)?;
        assert_eq!(c, ShapeView::Radius(0.5));
    }
    let picture = path.echo_picture_in(scope, &a.picture)?;
    assert_eq!((picture.caption, picture.drawn.len(), picture.at), (&*a.picture.caption, 3, a.picture.at));
    assert_eq!(path.echo_matrix([[1, 2], [3, 4], [5, 6]])?, [[1, 2], [3, 4], [5, 6]]);
    assert_eq!(path.echo_octets_in(scope, &a.small)?, &*a.small);
    assert_eq!(path.echo_octets_in(scope, &a.large)?, &*a.large);
    let unvalued = path.echo_unvalued_in(scope, &a.unvalued)?;
    assert!(unvalued.first.is_null() && unvalued.second.is_null());
    path.feed(&a.tracks)?;
    path.fed()?;
    Ok(())
}

#[test]
fn the_steady_state_allocates_nothing() {
    let arguments = arguments();
    for endpoint in ["127.0.0.1:0", "unix:", "segment:"] {
        for concurrency in [Concurrency::Connection, Concurrency::Lane] {
            for collocated in [false, true] {
                let endpoints = vec![endpoint.into()];
                // A lane keeps unsent octets in a block of its own, so the transport must take the
                // longest reply.
                let transport = TransportConfig { segment_bytes: 256 << 10, ..TransportConfig::default() };
                // Counting requests allocates nothing either.
                let request_statistics = if endpoint == "unix:" { 64 } else { 0 };
                let config = Config {
                    endpoints,
                    concurrency,
                    lane_threads: 1,
                    transport,
                    request_statistics,
                    ..Config::default()
                };
                let (server, _client, path) = serve_with(config, collocated);
                let call = || server.scope(|scope| round(&path, scope, &arguments)).unwrap();
                // If a client takes a reply slowly, the lane keeps the rest in one more block: that
                // must have happened before.
                for _ in 0..50 {
                    call();
                }
                // A check of an idle connection, which needs a block, must have happened too: on a
                // busy machine a call may come late.
                std::thread::sleep(std::time::Duration::from_millis(20));
                call();
                let made = in_steady_state(|| (0..100).for_each(|_| call()));
                let what = format!("{endpoint} {concurrency:?}, collocated {collocated}");
                assert_eq!(made, 0, "{what}: {made} allocations in 100 rounds");
                let before = process_allocations();
                // The counter counts: owned results must show.
                path.who().unwrap();
                assert!(process_allocations() > before, "the control allocates");
                server.shutdown(true).unwrap();
            }
        }
    }
}
