//! Damaged trace files are errors, or are drawn.

use isorb_timeline::Timeline;
use isorb_trace::{Participant, Record, RecordKind, Recording, Role, Track, VERSION, decode, encode};
use proptest::collection::vec;
use proptest::prelude::*;

fn recordings() -> impl Strategy<Value = Recording> {
    let record = (any::<u64>(), 1..=10_u8, any::<u8>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
        |(at, code, level, id, a, b)| Record {
            at,
            kind: RecordKind::from_code(code).expect("there are ten"),
            level,
            id,
            a,
            b,
        },
    );
    let track =
        vec(record, 0..20).prop_map(|records| Track { thread: "worker".into(), overwritten: 0, records });
    let participant = (any::<bool>(), any::<u32>(), ".{0,12}").prop_map(|(supplier, id, name)| Participant {
        role: if supplier { Role::Supplier } else { Role::Consumer },
        id,
        name,
        deadline: None,
    });
    (any::<u64>(), vec(participant, 0..5), vec(track, 0..4)).prop_map(|(lost, participants, tracks)| {
        Recording { name: "cockpit".into(), lost, participants, tracks, ..Recording::default() }
    })
}

fn check_drawing(file: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(recording) = decode(file) {
        let timeline = Timeline::of("any", &[recording]);
        prop_assert!(timeline.page().contains("</html>"));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&timeline.perfetto()).is_ok());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_octets_are_an_error_or_drawn(head in any::<bool>(), octets in vec(any::<u8>(), 0..400)) {
        let mut file = if head { [&b"isorbtrc"[..], &[VERSION]].concat() } else { Vec::new() };
        file.extend(octets);
        check_drawing(&file)?;
    }

    #[test]
    fn any_damage_is_an_error_or_drawn(recording in recordings(), offset in any::<u16>(), value in any::<u8>()) {
        let mut file = encode(&recording);
        let offset = usize::from(offset) % file.len();
        file[offset] = value;
        check_drawing(&file)?;
    }
}
