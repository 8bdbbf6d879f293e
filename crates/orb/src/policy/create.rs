//! Policies of the module `Messaging` by their numbers and values, as `CORBA::ORB::create_policy`
//! takes them (CORBA 3.3 part 1, clause 22.2).

use self::PolicyErrorReason::{BadPolicyType, BadPolicyValue, UnsupportedPolicy, UnsupportedPolicyValue};
use super::{Policies, Rebind, SyncScope};
use isorb_any::{Any, AnyValue, TypeCode};
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The reasons of `CORBA::PolicyError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyErrorReason {
    /// `UNSUPPORTED_POLICY`: a policy of the standard that isorb does not have.
    UnsupportedPolicy = 1,
    /// `BAD_POLICY_TYPE`: the value is of another type than the policy's.
    BadPolicyType = 2,
    /// `BAD_POLICY_VALUE`: no value of the policy.
    BadPolicyValue = 3,
    /// `UNSUPPORTED_POLICY_VALUE`: a value that asks for what isorb does not do.
    UnsupportedPolicyValue = 4,
}

/// `CORBA::PolicyError`, with a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePolicyError {
    reason: PolicyErrorReason,
    sentence: String,
}

impl CreatePolicyError {
    /// Why.
    pub fn reason(&self) -> PolicyErrorReason {
        self.reason
    }

    /// The number that the standard has for the reason.
    pub fn code(&self) -> i16 {
        self.reason as i16
    }
}

impl fmt::Display for CreatePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for CreatePolicyError {}

type Created<T = Policies> = Result<T, CreatePolicyError>;

fn refuse<T>(reason: PolicyErrorReason, sentence: String) -> Created<T> {
    Err(CreatePolicyError { reason, sentence })
}

/// `ORDER_ANY` and `ORDER_PRIORITY`, and all orders.
const ORDER_ANY: u16 = 0x01;
const ORDER_PRIORITY: u16 = 0x04;
const ORDERS: u16 = 0x0f;

/// `ROUTE_NONE`.
const ROUTE_NONE: i16 = 0;

impl Policies {
    /// A policy of `Messaging` by its number and value, as from `CORBA::ORB::create_policy`: what
    /// it sets, to be [joined](Policies::or) with others.
    ///
    /// Those for routers set nothing; they are accepted where their value allows what isorb does: a
    /// call goes to the server directly (`RoutingPolicy` with `ROUTE_NONE` in its range, any
    /// `MaxHopsPolicy`), and calls that wait for a connection go on by priority, those of one
    /// priority in the order of their beginning (`QueueOrderPolicy` with `ORDER_ANY` or
    /// `ORDER_PRIORITY`). A request has the priority 0 at a router (`RequestPriorityPolicy` and
    /// `ReplyPriorityPolicy` with 0 in their range). A start or end time is converted to the
    /// monotonic clock here.
    ///
    /// # Errors
    /// [`CreatePolicyError`] with the standard's reason and a sentence.
    ///
    /// # Real-time
    /// Allocates.
    pub fn create(policy_type: u32, value: &Any) -> Result<Policies, CreatePolicyError> {
        let mut made = Policies::OPEN;
        match policy_type {
            23 => {
                made.rebind = Some(match read("a RebindMode", value)? {
                    0i16 => Rebind::Transparent,
                    1 => Rebind::NoRebind,
                    2 => Rebind::NoReconnect,
                    other => return refuse(BadPolicyValue, format!("{other} is no RebindMode")),
                });
            }
            24 => {
                made.sync_scope = Some(match read("a SyncScope", value)? {
                    0i16 => SyncScope::None,
                    1 => SyncScope::WithTransport,
                    2 => SyncScope::WithServer,
                    3 => SyncScope::WithTarget,
                    other => return refuse(BadPolicyValue, format!("{other} is no SyncScope")),
                });
            }
            25 | 26 => within("PriorityRange", value, 0, "a request has the priority 0 at a router")?,
            27 => made.request_start = Some(moment(value)?),
            28 => made.request_end = Some(moment(value)?),
            29 => made.reply_start = Some(moment(value)?),
            30 => made.reply_end = Some(moment(value)?),
            31 => made.request_timeout = Some(hundreds_of_ns(read("a TimeT", value)?)),
            32 => made.round_trip_timeout = Some(hundreds_of_ns(read("a TimeT", value)?)),
            33 => within(
                "RoutingTypeRange",
                value,
                ROUTE_NONE,
                "a call goes to the server directly (ROUTE_NONE), never through a router",
            )?,
            // A call takes no hop.
            34 => _ = read::<u16>("the number of hops", value)?,
            35 => queue_order(read("an Ordering", value)?)?,
            other => {
                return refuse(
                    UnsupportedPolicy,
                    format!(
                        "{other} is no policy of Messaging; those of POAs are PoaPolicies, those of RT-CORBA RtPolicy"
                    ),
                );
            }
        }
        Ok(made)
    }
}

/// The value of a policy.
fn read<T: AnyValue>(what: &str, value: &Any) -> Created<T> {
    match value.get() {
        Some(value) => Ok(value),
        None => refuse(BadPolicyType, format!("the value is a {}, not {what}", value.type_code())),
    }
}

fn queue_order(orders: u16) -> Created<()> {
    match orders {
        0 => refuse(BadPolicyValue, "an Ordering without any order".into()),
        orders if orders & !ORDERS != 0 => {
            refuse(BadPolicyValue, format!("{orders:#x} has bits that are no order: 1, 2, 4 and 8 are"))
        }
        orders if orders & (ORDER_ANY | ORDER_PRIORITY) == 0 => refuse(
            UnsupportedPolicyValue,
            format!(
                "the order {orders:#x}: calls that wait for a connection go on by priority; allow ORDER_PRIORITY or \
                 ORDER_ANY"
            ),
        ),
        _ => Ok(()),
    }
}

/// A range of `Messaging`, which must have `own` in it: what isorb does, as `sentence` says.
fn within(name: &str, value: &Any, own: i16, sentence: &str) -> Created<()> {
    let members = [("min", TypeCode::SHORT), ("max", TypeCode::SHORT)];
    let (min, max): (i16, i16) = match octets(name, "Messaging", &members, value)? {
        [a, b, c, d] => (i16::from_ne_bytes([*a, *b]), i16::from_ne_bytes([*c, *d])),
        _ => return wrong(name, value),
    };
    if min > max {
        return refuse(BadPolicyValue, format!("a {name} from {min} to {max}"));
    }
    match (min..=max).contains(&own) {
        true => Ok(()),
        false => refuse(UnsupportedPolicyValue, format!("a {name} from {min} to {max}: {sentence}")),
    }
}

/// The octets of a structure of these members, in this machine's byte order.
fn octets<'a>(name: &str, module: &str, members: &[(&str, TypeCode)], value: &'a Any) -> Created<&'a [u8]> {
    let id = format!("IDL:omg.org/{module}/{name}:1.0");
    match TypeCode::new_struct(&id, name, members) {
        Ok(expected) if value.holds(&expected) => Ok(value.value()),
        _ => wrong(name, value),
    }
}

fn wrong<T>(name: &str, value: &Any) -> Created<T> {
    refuse(BadPolicyType, format!("the value is a {}, not a {name}", value.type_code()))
}

/// `TimeT`: units of 100 ns.
fn hundreds_of_ns(units: u64) -> Duration {
    Duration::new(units / 10_000_000, (units % 10_000_000) as u32 * 100)
}

/// From 1582-10-15 00:00, where `UtcT` begins, to 1970-01-01 00:00.
const UNIX_EPOCH_UNITS: u64 = 122_192_928_000_000_000;

/// The moment of a `UtcT`, by the difference to what the wall clock shows now.
fn moment(value: &Any) -> Created<Instant> {
    let members = [
        ("time", TypeCode::ULONGLONG),
        ("inacclo", TypeCode::ULONG),
        ("inacchi", TypeCode::USHORT),
        ("tdf", TypeCode::SHORT),
    ];
    let Some(time) = octets("UtcT", "TimeBase", &members, value)?.first_chunk() else {
        return wrong("UtcT", value);
    };
    let time = hundreds_of_ns(u64::from_ne_bytes(*time));
    let now = Instant::now();
    // A clock before 1970 was never set.
    let shown = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shown = shown + hundreds_of_ns(UNIX_EPOCH_UNITS);
    let moment = match time.checked_sub(shown) {
        Some(left) => now.checked_add(left),
        // What is before the start of this clock is past, as the start is.
        None => Some(now.checked_sub(shown - time).unwrap_or(now)),
    };
    moment.map_or_else(|| refuse(UnsupportedPolicyValue, "a time that no clock here reaches".into()), Ok)
}
