//! How long a push agent is silent, and what that costs.

use super::*;

/// Writes each `period` for `rounds` periods; gives the datagrams that went, the longest silence
/// between two, and what is known there.
fn written_each(period: u64, rounds: u64) -> (u64, u64, State) {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, None, None);
    // The agent's first look, and the first value at a moment of no consequence to the heartbeats.
    world.run(world.now + 37 * MS);
    let begin = world.now;
    for round in 0..rounds {
        world.now = begin + round * period;
        world.write(&mut line, &[1; 100]);
        world.run(begin + (round + 1) * period);
    }
    let times: Vec<u64> = world.log.iter().map(|(at, ..)| *at).collect();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert_eq!(world.far.receive_stats(line.channel).unwrap().silent, 0);
    let stats = world.near.push_stats(line.push).unwrap();
    assert_eq!(stats.pushes, rounds);
    (stats.datagrams - stats.pushes, longest, world.far.receive_stats(line.channel).unwrap().state)
}

#[test]
fn a_faster_writer_costs_no_heartbeat() {
    for period in [5 * MS, 60 * MS, 99 * MS] {
        assert_eq!(written_each(period, 50).0, 0, "{period}");
    }
    // Longer periods cost as many as it takes.
    assert_eq!(written_each(150 * MS, 50).0, 50);
    assert_eq!(written_each(1_000 * MS, 5).0, 5 * 9);
}

#[test]
fn no_writer_is_silent_for_longer() {
    for period in [40, 99, 101, 140, 149, 160, 333, 990] {
        let (_, longest, state) = written_each(period * MS, 40);
        assert!(longest <= 100 * MS + MS / 100, "{period}: {longest}");
        assert_eq!(state, State::Open);
    }
}

#[test]
fn a_push_that_waits_puts_a_heartbeat_off_by_a_quarter() {
    let mut world = World::new(1);
    // 20 octets a second: the second datagram of a value waits for a minute.
    let mut line = world.line(2_000, Mode::OnWrite, None, None);
    let Slot { agent: Some(push), .. } = &mut world.near.pushes[0] else { panic!("there is one") };
    push.hold_to_rate(20);
    world.write(&mut line, &[1; 2_000]);
    let begin = world.now;
    world.run(begin + 1_000 * MS);
    let times: Vec<u64> = world.log.iter().map(|(at, ..)| (at - begin) / MS).collect();
    assert_eq!(times, [0, 125, 250, 375, 500, 625, 750, 875], "{times:?}");
    assert_eq!(world.far.receive_stats(line.channel).unwrap().silent, 0);
}

/// Values and heartbeats together are more than the rate, values alone are not.
#[test]
fn heartbeats_take_nothing_of_the_channels_rate() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, None, None);
    let Slot { agent: Some(push), .. } = &mut world.near.pushes[0] else { panic!("there is one") };
    push.hold_to_rate(500);
    for n in 1..=10u8 {
        world.write(&mut line, &[n; 100]);
        world.run(world.now + 600 * MS);
    }
    assert!(latest(&mut line).is_some_and(|(source, _)| source == 10), "the last value came");
}
