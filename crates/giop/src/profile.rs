//! Profiles: where an object is.

/// Profile tag of IIOP.
pub const TAG_INTERNET_IOP: u32 = 0;
