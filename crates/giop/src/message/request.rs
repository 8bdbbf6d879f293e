//! Request (clause 9.4.2).

use super::{OperationName, ServiceContext, ServiceContexts, Target, contexts, octets, target, write_header};
use crate::octets::{has_zero, put_name, put_octets};
use crate::{Header, Ior, MessageKind, TaggedProfile};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;
use isorb_cdr::{Decoder, Encoder, Error, ErrorKind, Order, Result, Text, Version};
use isorb_scope::Scope;

/// The reply that the caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Response {
    /// No reply (a oneway with SYNC_NONE or SYNC_WITH_TRANSPORT).
    None = 0,
    /// A reply before the servant is called (SYNC_WITH_SERVER).
    Server = 1,
    /// The servant's reply.
    Target = 3,
}

impl Response {
    /// From the response flags of GIOP 1.2. Six bits of the octet are reserved: ignored.
    #[inline]
    const fn from_flags(flags: u8) -> Option<Response> {
        match flags & 3 {
            0 => Some(Response::None),
            1 => Some(Response::Server),
            3 => Some(Response::Target),
            _ => None,
        }
    }

    /// Whether there will be a reply.
    pub const fn expected(self) -> bool {
        !matches!(self, Response::None)
    }
}

/// The header of a request, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Request<'m> {
    /// Request id; the reply carries it.
    pub id: u32,
    /// The reply that the caller waits for.
    pub response: Response,
    /// The object.
    pub target: Target<'m>,
    /// Name of the operation.
    pub operation: OperationName<'m>,
    /// Service contexts.
    pub contexts: ServiceContexts<'m>,
}

/// The offsets of an ordinary request: GIOP 1.2 by key, as nearly all are, with service contexts
/// that the caller of [`find`](Self::find) accepts.
///
/// It is well formed, except that the operation's name may contain a zero octet, which
/// [`Request::open`] checks. A server that compares the name with known names does not need the
/// check.
#[derive(Clone, Copy, Debug)]
pub struct OrdinaryRequest {
    key_ends: usize,
    name_at: usize,
    name_ends: usize,
    offsets: RequestOffsets,
}

/// The parts of an ordinary request that a server needs once it knows object and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOffsets {
    /// The request id.
    pub id: u32,
    /// The reply that the caller waits for.
    pub response: Response,
    /// The service contexts' offsets.
    pub contexts: ContextOffsets,
    /// The start of the body, in the message or at its end.
    pub body_at: usize,
}

/// The offsets of a message's service contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextOffsets {
    at: usize,
    ends: usize,
    count: usize,
}

impl ContextOffsets {
    /// The contexts in the message in which they were found, or in its part before the body.
    #[inline(always)]
    pub fn of(self, message: &[u8], order: Order) -> ServiceContexts<'_> {
        if self.count == 0 {
            return ServiceContexts::EMPTY;
        }
        cold_path();
        ServiceContexts::measured(
            message.get(self.at..self.ends).unwrap_or_default(),
            self.at,
            order,
            self.count,
        )
    }
}

/// From the first context, behind their number, to the body.
#[inline(always)]
fn behind_number(
    message: &[u8],
    (at, order): (usize, Order),
    count: usize,
    passes: impl Fn(u32) -> bool,
) -> Option<(ContextOffsets, usize)> {
    let ends = match count {
        0 => at,
        _ => {
            cold_path();
            ServiceContexts::end(message, (at, order), count, passes)?
        }
    };
    Some((ContextOffsets { at, ends, count }, ((ends + 7) & !7).min(message.len())))
}

impl OrdinaryRequest {
    /// Examines a whole message; `None` for a request that is not ordinary, which [`Request::open`]
    /// reads or rejects. `passes` says whether a service context with this id is allowed.
    ///
    /// # Real-time
    /// Linear in the number of contexts, allocates nothing.
    #[inline(always)]
    pub fn find(message: &[u8], header: &Header, passes: impl Fn(u32) -> bool) -> Option<OrdinaryRequest> {
        if header.version != Version::V1_2 || header.fragment_boundaries != 0 {
            return None;
        }
        let native = |number: &[u8; 4]| {
            let number = u32::from_ne_bytes(*number);
            if header.order.is_foreign() { number.swap_bytes() } else { number }
        };
        let (fixed, rest) = message.split_first_chunk::<{ KEY_AT }>()?;
        let response = Response::from_flags(fixed[RESPONSE_AT])?;
        // The address disposition is 0 in either byte order; the two octets behind it are padding.
        if fixed[DISPOSITION_AT..DISPOSITION_AT + 2] != [0, 0] {
            return None;
        }
        let (id, key) = (native(fixed[ID_AT..].first_chunk()?), native(fixed[KEY_AT - 4..].first_chunk()?));
        let key_ends = KEY_AT.checked_add(key as usize)?;
        // Behind the key and its padding: the length of the name, the name, its terminator,
        // padding.
        let (_, rest) = rest.split_at_checked((key as usize).checked_add(3)? & !3)?;
        let (name, rest) = rest.split_first_chunk()?;
        let name_at = message.len() - rest.len();
        let name = (native(name) as usize).checked_sub(1)?;
        if *rest.get(name)? != 0 {
            return None;
        }
        let name_ends = name_at + name;
        // The number of contexts.
        let (_, rest) = rest.split_at_checked((name + 1 + 3) & !3)?;
        let (count, rest) = rest.split_first_chunk()?;
        let at = message.len() - rest.len();
        let (contexts, body_at) = behind_number(message, (at, header.order), native(count) as usize, passes)?;
        let offsets = RequestOffsets { id, response, contexts, body_at };
        Some(OrdinaryRequest { key_ends, name_at, name_ends, offsets })
    }

    /// The object key and the operation's name in the examined message; `None` with a shorter one.
    #[inline]
    pub fn names<'m>(&self, message: &'m [u8]) -> Option<(&'m [u8], &'m [u8])> {
        Some((message.get(KEY_AT..self.key_ends)?, message.get(self.name_at..self.name_ends)?))
    }

    /// The rest.
    #[inline]
    pub fn offsets(&self) -> RequestOffsets {
        self.offsets
    }

    /// The object key and the operation's name in the examined message, and a decoder at its body.
    ///
    /// # Panics
    /// With another, shorter message.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    #[inline(always)]
    pub fn open<'m>(
        self,
        message: &'m mut [u8],
        header: &Header,
        scope: &'m Scope<'m>,
    ) -> (Request<'m>, Decoder<'m>) {
        let OrdinaryRequest { key_ends, name_at, name_ends, offsets } = self;
        let RequestOffsets { id, response, contexts, body_at } = offsets;
        let (head, rest) = message.split_at_mut(body_at);
        let head: &'m [u8] = head;
        let key = &head[KEY_AT..key_ends];
        let operation = OperationName::unchecked(&head[name_at..name_ends]);
        let contexts = contexts.of(head, header.order);
        let request = Request { id, response, target: Target::Key(key), operation, contexts };
        (request, Decoder::behind(body_at, rest, header.order, Text::fallback(header.version), scope))
    }
}

/// The head of an ordinary request, kept so that another one for the same object and operation is
/// known by comparing octets.
#[derive(Debug)]
pub struct CachedHeader {
    /// From the response flags to the number of service contexts.
    octets: Vec<u8>,
    /// Where they end in the message; 0 for none.
    ends: usize,
    order: Order,
    response: Response,
    /// The number of service contexts; they themselves differ from request to request.
    contexts: usize,
}

impl Default for CachedHeader {
    fn default() -> CachedHeader {
        let octets = Vec::with_capacity(CachedHeader::MAX - RESPONSE_AT);
        CachedHeader { octets, ends: 0, order: Order::NATIVE, response: Response::None, contexts: 0 }
    }
}

impl CachedHeader {
    /// Heads that end behind this offset are not kept.
    pub const MAX: usize = 256;

    /// Keeps the head of a message that [`OrdinaryRequest::find`] looked at. `false`: it is too
    /// long, and none is kept.
    ///
    /// # Real-time
    /// Copies the head; allocates nothing.
    pub fn keep(&mut self, message: &[u8], header: &Header, found: &OrdinaryRequest) -> bool {
        self.ends = 0;
        self.octets.clear();
        let ends = ((found.name_ends + 1 + 3) & !3) + 4;
        let Some(octets) = message.get(RESPONSE_AT..ends).filter(|_| ends <= CachedHeader::MAX) else {
            return false;
        };
        self.octets.extend_from_slice(octets);
        let RequestOffsets { response, contexts, .. } = found.offsets;
        (self.ends, self.order, self.response, self.contexts) =
            (ends, header.order, response, contexts.count);
        true
    }

    /// If a message has the head that was kept: the rest of it. [`OrdinaryRequest::find`] would
    /// find the same key, operation, contexts and body.
    ///
    /// # Real-time
    /// One comparison of octets, of [`CachedHeader::MAX`] at most; linear in the number of
    /// contexts.
    #[inline(always)]
    pub fn matches(
        &self,
        message: &[u8],
        header: &Header,
        passes: impl Fn(u32) -> bool,
    ) -> Option<RequestOffsets> {
        if header.version != Version::V1_2 || header.fragment_boundaries != 0 || header.order != self.order {
            cold_path();
            return None;
        }
        if message.get(RESPONSE_AT..self.ends) != Some(&self.octets[..]) {
            cold_path();
            return None;
        }
        let id = u32::from_ne_bytes(*message[ID_AT..].first_chunk()?);
        let id = if header.order.is_foreign() { id.swap_bytes() } else { id };
        let (contexts, body_at) = behind_number(message, (self.ends, header.order), self.contexts, passes)?;
        Some(RequestOffsets { id, response: self.response, contexts, body_at })
    }
}

impl<'m> Request<'m> {
    /// Reads the header of a request in a whole message: the request, and a decoder at its body. It
    /// gives what [`start_whole`](super::start_whole), [`Request::read`] and [`body`](super::body)
    /// give, in fewer steps for a message that is as most are.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed header.
    ///
    /// # Real-time
    /// Linear in the header's length; allocates nothing and needs no scope.
    pub fn open(
        message: &'m mut [u8],
        header: &Header,
        scope: &'m Scope<'m>,
    ) -> Result<(Request<'m>, Decoder<'m>)> {
        match OrdinaryRequest::find(message, header, |_| true) {
            Some(found) => {
                let (request, d) = found.open(message, header, scope);
                if has_zero(request.operation.as_bytes()) {
                    return Err(Error::new(ErrorKind::Terminator, found.name_at));
                }
                Ok((request, d))
            }
            None => Request::open_any(message, header, scope),
        }
    }

    #[cold]
    #[inline(never)]
    fn open_any(
        message: &'m mut [u8],
        header: &Header,
        scope: &'m Scope<'m>,
    ) -> Result<(Request<'m>, Decoder<'m>)> {
        let mut d = super::start_whole(message, header, scope);
        let request = Request::read(&mut d)?;
        super::body(&mut d);
        Ok((request, d))
    }

    /// Reads the header of a request; [`body`](super::body) comes next.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed header.
    ///
    /// # Real-time
    /// Linear in the header's length; allocates nothing and needs no scope.
    #[inline(always)]
    pub fn read(d: &mut Decoder<'m>) -> Result<Request<'m>> {
        if d.text().version >= Version::V1_2 { Request::read_1_2(d) } else { Request::read_1_0(d) }
    }

    #[inline(always)]
    fn read_1_2(d: &mut Decoder<'m>) -> Result<Request<'m>> {
        // Everything of fixed length in one piece: the id, the flags with three reserved octets,
        // and the address disposition with its padding, which precedes every kind of address.
        let [id, flags, disposition] = d.get::<[u32; 3]>()?;
        let (flags, disposition) = match d.order() {
            Order::Little => (flags as u8, disposition as u16),
            Order::Big => ((flags >> 24) as u8, (disposition >> 16) as u16),
        };
        let Some(response) = Response::from_flags(flags) else { return Err(d.error(ErrorKind::Value)) };
        let target = Target::read_as(d, disposition)?;
        let operation = OperationName::read(d)?;
        let contexts = ServiceContexts::read(d)?;
        Ok(Request { id, response, target, operation, contexts })
    }

    fn read_1_0(d: &mut Decoder<'m>) -> Result<Request<'m>> {
        let contexts = ServiceContexts::read(d)?;
        let id = d.get()?;
        let response = if d.boolean()? { Response::Target } else { Response::None };
        if d.text().version == Version::V1_1 {
            d.take(3)?;
        }
        let target = Target::read(d)?;
        let operation = OperationName::read(d)?;
        // The principal, which has no meaning any more.
        octets(d)?;
        Ok(Request { id, response, target, operation, contexts })
    }
}

/// An object named otherwise than by its key, for a server that asked for it with
/// NEEDS_ADDRESSING_MODE (clause 9.4.3.1).
#[derive(Clone, Copy, Debug)]
pub enum Addressed<'a> {
    /// By a profile of the reference.
    Profile(&'a TaggedProfile),
    /// By the whole reference and the index of one of its profiles.
    Reference {
        /// The reference.
        ior: &'a Ior,
        /// Index of the profile.
        selected: u32,
    },
}

/// As [`write_request`], with another address than a key. GIOP 1.2 only: earlier versions have only
/// keys.
///
/// # Real-time
/// Linear in the header's length; allocates only when the encoder's buffer is too small.
pub fn write_request_to(
    e: &mut Encoder<'_>,
    id: u32,
    response: Response,
    address: Addressed<'_>,
    operation: &str,
    contexts: &[ServiceContext<'_>],
) {
    if e.text().version < Version::V1_2 {
        return e.fail(ErrorKind::NotRemotable);
    }
    write_header(e, MessageKind::Request);
    e.put(id);
    e.raw(&[response as u8, 0, 0, 0]);
    match address {
        Addressed::Profile(profile) => {
            e.put(1u16);
            e.put(profile.tag);
            put_octets(e, &profile.data);
        }
        Addressed::Reference { ior, selected } => {
            e.put(2u16);
            e.put(selected);
            ior.encode(e);
        }
    }
    put_name(e, operation);
    contexts::write(e, contexts);
}

/// Offsets in a request of GIOP 1.2.
const ID_AT: usize = Header::LEN;
const RESPONSE_AT: usize = ID_AT + 4;
const DISPOSITION_AT: usize = RESPONSE_AT + 4;
/// Behind the length of the key.
const KEY_AT: usize = DISPOSITION_AT + 8;

/// The fixed part of a request of GIOP 1.2: up to the address disposition (0, a key) and its
/// padding.
const fn fixed() -> [u8; 24] {
    let mut fixed = [0; 24];
    let (header, _) = fixed.split_at_mut(Header::LEN);
    header.copy_from_slice(&Header::new(Version::V1_2, MessageKind::Request).write());
    fixed
}

/// The common beginning of all requests of GIOP 1.2 to one object, up to the object key, written
/// once.
#[derive(Clone, Debug)]
pub struct RequestHead(Box<[u8]>);

impl RequestHead {
    /// The head of requests to the object with this key; `None` for a key of 4 GiB or more.
    pub fn new(key: &[u8]) -> Option<RequestHead> {
        let length = u32::try_from(key.len()).ok()?.to_ne_bytes();
        let mut head = [&fixed()[..], &length, key].concat();
        // The name of the operation comes next, with its length.
        head.resize(head.len().next_multiple_of(4), 0);
        Some(RequestHead(head.into()))
    }

    /// The head of requests with this profile as target, as in requests to groups (clause 11);
    /// `None` for one of 4 GiB or more.
    #[cfg(feature = "miop")]
    pub fn by_profile(profile: &TaggedProfile) -> Option<RequestHead> {
        let mut fixed = fixed();
        fixed[DISPOSITION_AT..DISPOSITION_AT + 2].copy_from_slice(&1u16.to_ne_bytes());
        let length = u32::try_from(profile.data.len()).ok()?.to_ne_bytes();
        let mut head = [&fixed[..], &profile.tag.to_ne_bytes(), &length, &profile.data].concat();
        head.resize(head.len().next_multiple_of(4), 0);
        Some(RequestHead(head.into()))
    }

    /// Changes the header at the start of an encoder into that of another request of the same
    /// operation. [`RequestHead::write`] wrote it without contexts.
    #[inline(always)]
    pub fn renew(e: &mut Encoder<'_>, id: u32, response: Response) {
        e.patch(ID_AT, id);
        e.patch(RESPONSE_AT, u32::from_ne_bytes([response as u8, 0, 0, 0]));
    }

    /// As [`write_request`], with the same output. GIOP 1.2 only.
    ///
    /// # Real-time
    /// As [`write_request`]: the head is copied.
    pub fn write(
        &self,
        e: &mut Encoder<'_>,
        id: u32,
        response: Response,
        operation: &str,
        contexts: &[ServiceContext<'_>],
    ) {
        if e.text().version < Version::V1_2 {
            return e.fail(ErrorKind::NotRemotable);
        }
        e.raw(&self.0);
        RequestHead::renew(e, id, response);
        put_name_before(e, operation, contexts);
    }
}

/// The operation, and the contexts after it.
#[inline]
fn put_name_before(e: &mut Encoder<'_>, operation: &str, contexts: &[ServiceContext<'_>]) {
    if has_zero(operation.as_bytes()) {
        e.fail(ErrorKind::Text);
    } else if contexts.is_empty() {
        e.terminated_before_none(operation.as_bytes());
    } else {
        e.terminated(operation.as_bytes());
        contexts::write(e, contexts);
    }
}

/// Writes the message header and the request header in the version of the encoder's text; then
/// comes [`begin_body`](super::begin_body). The encoder must be at position 0.
///
/// # Real-time
/// Linear in the header's length; allocates only when the encoder's buffer is too small.
pub fn write_request(
    e: &mut Encoder<'_>,
    id: u32,
    response: Response,
    key: &[u8],
    operation: &str,
    contexts: &[ServiceContext<'_>],
) {
    match e.text().version {
        Version::V1_2 => {
            let mut fixed = fixed();
            fixed[ID_AT..RESPONSE_AT].copy_from_slice(&id.to_ne_bytes());
            fixed[RESPONSE_AT] = response as u8;
            e.raw(&fixed);
            put_octets(e, key);
            put_name_before(e, operation, contexts);
        }
        version => {
            write_header(e, MessageKind::Request);
            contexts::write(e, contexts);
            e.put(id);
            e.put(u8::from(response.expected()));
            if version == Version::V1_1 {
                e.raw(&[0; 3]);
            }
            target::write_key(e, key);
            put_name(e, operation);
            e.count(0);
        }
    }
}
