//! `kill -9` at any time loses no acknowledged operation.
//!
//! The test starts itself as a child, which writes in a loop and prints acknowledged steps. The
//! parent kills it at a random time, opens the file, and compares.

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::{Mode, Refusal};
use isorb_naming::{FileStore, Store};
use isorb_testkit::{KilledAfter, TempFolder, acknowledged_before_kill};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FILE: &str = "ISORB_NAMING_KILL_FILE";
const SEED: &str = "ISORB_NAMING_KILL_SEED";
const NAMES: u64 = 40;
const ROUNDS: u64 = 12;

/// SplitMix64: enough for a script that parent and child both know.
fn mix(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Step `i` of a script: a name and its value, or `None` to unbind it.
fn step(seed: u64, i: u64) -> (NameComponent, Option<Binding>) {
    let random = mix(seed, i);
    let name = NameComponent::new(format!("n{}", random % NAMES), "k");
    // Of different lengths, so that pages are rewritten.
    let octets = vec![i as u8; (random >> 8) as usize % 300];
    let bind = random >> 62 > 0;
    (name, bind.then(|| Binding { kind: BindingKind::Object, target: Target::Reference(octets.into()) }))
}

fn apply(store: &FileStore, (name, value): &(NameComponent, Option<Binding>)) -> Result<(), Refusal> {
    match value {
        Some(binding) => store.bind(ContextId::ROOT, name, binding, Mode::Replace),
        None => match store.unbind(ContextId::ROOT, name) {
            Err(Refusal::Unbound) => Ok(()),
            other => other,
        },
    }
}

#[test]
fn acknowledged_bindings_survive() {
    if let Ok(file) = std::env::var(FILE) {
        return write_for_ever(Path::new(&file));
    }
    let folder = TempFolder::new();
    let file = folder.file("names");
    let mut expected: BTreeMap<NameComponent, Binding> = BTreeMap::new();
    let mut steps = 0;
    for round in 0..ROUNDS {
        let seed = mix(u64::from(std::process::id()), round);
        let acknowledged = run_and_kill(&file, seed, round);
        steps += acknowledged;
        let change = |map: &mut BTreeMap<_, _>, i| match step(seed, i) {
            (name, Some(binding)) => _ = map.insert(name, binding),
            (name, None) => _ = map.remove(&name),
        };
        for i in 0..acknowledged {
            change(&mut expected, i);
        }
        // The step under way may be in the file or not.
        let mut one_more = expected.clone();
        change(&mut one_more, acknowledged);
        let found = content(&FileStore::open(&file).unwrap());
        assert!(
            found == expected || found == one_more,
            "round {round}, seed {seed}: {acknowledged} steps were acknowledged, the file says otherwise"
        );
        expected = found;
    }
    assert!(steps > 0);
}

/// The number of steps that were acknowledged before the child was killed.
fn run_and_kill(file: &Path, seed: u64, round: u64) -> u64 {
    let delay = Duration::from_micros(mix(seed, u64::MAX) % (15_000 * (round + 1)));
    // From while it opens the file to after many steps.
    let when =
        if round.is_multiple_of(2) { KilledAfter::Start(delay) } else { KilledAfter::Acknowledgement(delay) };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["acknowledged_bindings_survive", "--exact", "--nocapture"])
        .env(FILE, file)
        .env(SEED, seed.to_string());
    acknowledged_before_kill(&mut command, when).len() as u64
}

fn write_for_ever(file: &Path) {
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let store = FileStore::open(file).unwrap();
    let mut output = std::io::stdout();
    // So that the first one begins a line.
    output.write_all(b"\n").unwrap();
    for i in 0.. {
        apply(&store, &step(seed, i)).unwrap();
        // One write call, so that a line is there as a whole or not at all.
        output.write_all(format!("ack {i}\n").as_bytes()).unwrap();
        output.flush().unwrap();
    }
}

fn content(store: &FileStore) -> BTreeMap<NameComponent, Binding> {
    let entries = store.list(ContextId::ROOT, None, usize::MAX).unwrap();
    let binding = |name: &NameComponent| store.lookup(ContextId::ROOT, name).unwrap();
    entries.into_iter().map(|(name, _)| (name.clone(), binding(&name))).collect()
}
