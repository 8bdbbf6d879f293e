//! Best effort on credits of the reader's node, with lost datagrams and lost credits.

use super::*;

const WINDOW: u64 = 12_000;

/// What the writer's node sends at once, and its octets on the wire that are not heartbeats.
fn sent(world: &mut World) -> (Vec<Vec<u8>>, u64) {
    let (mut out, mut datagrams, mut octets) = (vec![0; 2000], Vec::new(), 0);
    while let Action::Send { len, .. } = world.near.next_action(world.now, &mut out) {
        let is_data = matches!(Datagram::read(&out[..len]).unwrap().kind, Kind::Fragment);
        octets += if is_data { (len + WIRE_OVERHEAD) as u64 } else { 0 };
        datagrams.push(out[..len].to_vec());
        assert!(datagrams.len() < 10_000, "there is an end");
    }
    (datagrams, octets)
}

/// The reader's node receives these, and its answers reach the writer's node or are lost.
fn received(world: &mut World, datagrams: &[Vec<u8>], answers_arrive: bool) {
    for datagram in datagrams {
        world.far.received(FROM, datagram, world.now);
        let mut out = [0; 2000];
        while let Action::Report { len, .. } = world.far.next_action(world.now, &mut out) {
            if answers_arrive {
                world.near.received(TO, &out[..len], world.now);
            }
        }
    }
}

/// The heartbeats of all channels arrive, and their answers.
fn beat(world: &mut World) {
    world.now += 130 * MS;
    let (heartbeats, _) = sent(world);
    received(world, &heartbeats, true);
}

#[test]
fn no_more_than_the_window_is_on_its_way_to_a_node_that_receives_guaranteed_channels() {
    let mut world = World::new(0);
    world.credit = Some(u64::MAX);
    let mut line = world.line(90_000, Mode::OnWrite, None, None);
    let mut value = 0;
    let mut write = |world: &mut World, line: &mut Line| {
        value += 1;
        world.write(line, &[value; 90_000]);
    };
    write(&mut world, &mut line);
    let (all, octets) = sent(&mut world);
    assert!(octets > 90_000, "without guaranteed channels there is no limit");
    received(&mut world, &all, true);
    assert_eq!(latest(&mut line).unwrap().0, 1);

    // The senders learn it by their next datagram, here a heartbeat.
    world.far.limit_best_effort(Some(WINDOW));
    beat(&mut world);
    write(&mut world, &mut line);
    let (first, octets) = sent(&mut world);
    assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");
    // What arrives makes room, and the value gets through.
    let mut datagrams = first;
    for _ in 0..100 {
        received(&mut world, &datagrams, true);
        let (next, octets) = sent(&mut world);
        assert!(octets <= WINDOW, "{octets}");
        datagrams = next;
    }
    assert_eq!(latest(&mut line).unwrap().0, 2);
    assert!(world.near.push_stats(line.push).unwrap().waited > 5, "the waits are counted");

    // Everything on its way is lost. The writer's node waits, and its heartbeat ends that.
    write(&mut world, &mut line);
    let _ = sent(&mut world);
    assert_eq!(sent(&mut world).1, 0, "there is no credit left");
    world.now += 130 * MS;
    let (heartbeats, octets) = sent(&mut world);
    assert_eq!(octets, 0);
    // The answer is lost, too, and comes after the next heartbeat.
    received(&mut world, &heartbeats, false);
    assert_eq!(sent(&mut world).1, 0);
    world.now += 130 * MS;
    let (heartbeats, _) = sent(&mut world);
    received(&mut world, &heartbeats, true);
    let (_, octets) = sent(&mut world);
    assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");

    // The last guaranteed channel ends.
    world.far.limit_best_effort(None);
    beat(&mut world);
    assert!(sent(&mut world).1 > WINDOW);
}

#[test]
fn channels_share_the_window_and_each_has_two_datagrams() {
    let mut world = World::new(0);
    world.credit = Some(u64::MAX);
    let mut lines: Vec<Line> = (0..10).map(|_| world.line(50_000, Mode::OnWrite, None, None)).collect();
    world.far.limit_best_effort(Some(WINDOW));
    beat(&mut world);
    for line in &mut lines {
        world.write(line, &[1; 50_000]);
    }
    let (_, octets) = sent(&mut world);
    assert!((10 * LEAST_CREDIT / 2..=10 * LEAST_CREDIT).contains(&octets), "{octets}");
}
