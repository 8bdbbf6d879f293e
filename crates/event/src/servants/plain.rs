//! TAO's interfaces without the channel's time stamps, as a TAO that was built with
//! `TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS` has them.

#[allow(clippy::duplicate_mod, reason = "one source for both layouts of an event")]
#[path = "rtec.rs"]
pub(super) mod servants;
/// The generated modules.
#[allow(missing_docs)]
pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/plain/isorb_rtec_event_channel_admin.rs"));
}
pub use generated::*;

pub(crate) fn header(h: &crate::event::Header) -> rtec_event_comm::EventHeader {
    rtec_event_comm::EventHeader {
        type_: h.event_type,
        source: h.source,
        ttl: h.ttl,
        creation_time: h.creation_time,
    }
}
