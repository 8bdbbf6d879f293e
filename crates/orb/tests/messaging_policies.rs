//! Policies of the module `Messaging` by their numbers and values.

use isorb::PolicyErrorReason::{
    self, BadPolicyType, BadPolicyValue, UnsupportedPolicy, UnsupportedPolicyValue,
};
use isorb::{Any, Policies, Rebind, SyncScope, TypeCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From 1582-10-15 00:00, where `UtcT` begins, to 1970-01-01 00:00.
const UNIX_EPOCH_UNITS: u64 = 122_192_928_000_000_000;

fn structure(module: &str, name: &str, members: &[(&str, TypeCode)]) -> TypeCode {
    TypeCode::new_struct(&format!("IDL:omg.org/{module}/{name}:1.0"), name, members).unwrap()
}

fn range(name: &str, min: i16, max: i16) -> Any {
    let tc = structure("Messaging", name, &[("min", TypeCode::SHORT), ("max", TypeCode::SHORT)]);
    Any::with_type(tc, (min, max)).unwrap()
}

fn utc(units: u64) -> Any {
    let members = [
        ("time", TypeCode::ULONGLONG),
        ("inacclo", TypeCode::ULONG),
        ("inacchi", TypeCode::USHORT),
        ("tdf", TypeCode::SHORT),
    ];
    Any::with_type(structure("TimeBase", "UtcT", &members), (units, 0u32, (0u16, 0i16))).unwrap()
}

#[track_caller]
fn refused(policy_type: u32, value: &Any, reason: PolicyErrorReason, code: i16) {
    let error = Policies::create(policy_type, value).unwrap_err();
    assert_eq!((error.reason(), error.code()), (reason, code), "{error}");
    assert!(!error.to_string().is_empty());
}

#[test]
fn policies_of_callers_are_set_by_their_numbers() {
    let alias = TypeCode::new_alias("IDL:omg.org/Messaging/SyncScope:1.0", "SyncScope", &TypeCode::SHORT);
    let scope = Any::with_type(alias.unwrap(), 3i16).unwrap();
    let made = Policies::create(24, &scope).unwrap();
    assert_eq!(made, Policies { sync_scope: Some(SyncScope::WithTarget), ..Policies::default() });
    let made = Policies::create(23, &Any::from(2i16)).unwrap();
    assert_eq!(made, Policies { rebind: Some(Rebind::NoReconnect), ..Policies::default() });
    let made = Policies::create(31, &Any::from(15_000_001u64)).unwrap();
    assert_eq!(made.request_timeout, Some(Duration::new(1, 500_000_100)));
    let made = Policies::create(32, &Any::from(u64::MAX)).unwrap();
    assert!(made.round_trip_timeout.is_some_and(|time| time > Duration::from_secs(1 << 40)));
    refused(23, &Any::from(3i16), BadPolicyValue, 3);
    refused(24, &Any::from(-1i16), BadPolicyValue, 3);
    refused(24, &Any::from(1i32), BadPolicyType, 2);
    refused(31, &Any::from(1u32), BadPolicyType, 2);
    refused(36, &Any::from(1u32), UnsupportedPolicy, 1);
}

#[test]
fn moments_are_those_of_the_wall_clock() {
    let units = |at: SystemTime| {
        let since = at.duration_since(UNIX_EPOCH).unwrap();
        UNIX_EPOCH_UNITS + (since.as_nanos() / 100) as u64
    };
    let hour = Duration::from_secs(3600);
    let before = Instant::now();
    let made = Policies::create(30, &utc(units(SystemTime::now() + hour))).unwrap();
    let left = made.reply_end.unwrap() - before;
    assert!(left > hour / 2 && left < 2 * hour, "{left:?}");
    let past = Policies::create(27, &utc(units(SystemTime::now() - hour))).unwrap();
    assert!(past.request_start.unwrap() < Instant::now());
    assert!(Policies::create(28, &utc(0)).unwrap().request_end.unwrap() <= Instant::now());
    let _ = Policies::create(29, &utc(u64::MAX)).unwrap();
    refused(29, &Any::from(1u64), BadPolicyType, 2);
}

#[test]
fn what_asks_for_a_router_is_refused() {
    for (min, max) in [(0, 0), (0, 2), (-1, 1)] {
        assert_eq!(Policies::create(33, &range("RoutingTypeRange", min, max)), Ok(Policies::default()));
    }
    refused(33, &range("RoutingTypeRange", 1, 1), UnsupportedPolicyValue, 4);
    refused(33, &range("RoutingTypeRange", 1, 2), UnsupportedPolicyValue, 4);
    refused(33, &range("RoutingTypeRange", 2, 1), BadPolicyValue, 3);
    refused(33, &range("PriorityRange", 0, 0), BadPolicyType, 2);
    for policy in [25, 26] {
        assert_eq!(Policies::create(policy, &range("PriorityRange", -5, 5)), Ok(Policies::default()));
        refused(policy, &range("PriorityRange", 1, 5), UnsupportedPolicyValue, 4);
        refused(policy, &range("PriorityRange", 1, 0), BadPolicyValue, 3);
        refused(policy, &Any::from(0i16), BadPolicyType, 2);
    }
    assert_eq!(Policies::create(34, &Any::from(0u16)), Ok(Policies::default()));
    refused(34, &Any::from(0i16), BadPolicyType, 2);
    for orders in [1u16, 4, 5, 6, 12, 15] {
        assert_eq!(Policies::create(35, &Any::from(orders)), Ok(Policies::default()), "{orders}");
    }
    for orders in [2u16, 8, 10] {
        refused(35, &Any::from(orders), UnsupportedPolicyValue, 4);
    }
    refused(35, &Any::from(0u16), BadPolicyValue, 3);
    refused(35, &Any::from(16u16), BadPolicyValue, 3);
    refused(35, &Any::from(4i16), BadPolicyType, 2);
}
