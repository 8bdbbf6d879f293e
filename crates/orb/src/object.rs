//! Object references.

use crate::binding::{Overrides, Plans, RtComponents};
use crate::peer::Peer;
use crate::policy::{Effective, Policies, Timeout, thread_policies, thread_sets_policies};
use crate::transports;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Arg, Decode, Decoder, Encode, Encoder, ErrorKind, Handle, Narrow, Version, Wide};
use isorb_giop::codeset::negotiate;
use isorb_giop::component::{ORB_TYPE_OMNIORB, ORB_TYPE_TAO};
use isorb_giop::message::RequestHead;
use isorb_giop::{Completion, Ior, Kind, minor};
use isorb_rt::atomic_enum;
use isorb_rt::sync::{AtomicEnum, PiMutex};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::hint::cold_path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A reference to a CORBA object, local or remote. Cheap to clone; never nil.
///
/// Two references are equal (`==`) when their IORs are equal, as the standard allows for
/// `_is_equivalent`.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

struct Inner {
    orb: Orb,
    ior: Arc<Ior>,
    binding: Arc<Bound>,
    policies: Policies,
    /// Whether any policy is set; read in each call.
    sets_policies: bool,
    /// Whether these are start or end times.
    sets_times: bool,
    rt_overrides: Overrides,
    /// The `ValueBase` that a reference to an abstract interface holds; there is no object then.
    value: Option<Arc<dyn HeldValue>>,
}

/// The target of calls, shared by all clones with any policies.
#[derive(Default)]
struct Bound {
    /// The target of the first call. It rarely changes, and calls then take neither lock nor count.
    first: OnceLock<Arc<Target>>,
    /// Whether the target has changed since.
    changed: AtomicBool,
    now: PiMutex<Binding>,
}

/// The present target.
#[derive(Default)]
struct Binding {
    target: Option<Arc<Target>>,
    /// The server's permanent forward; `None` while the reference itself applies.
    moved: Option<Arc<Ior>>,
}

/// How requests name their object: the server's addressing mode (clause 9.4.3.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Addressing {
    Key,
    Profile,
    Reference,
}

atomic_enum!(Addressing: Key, Profile, Reference);

impl Addressing {
    /// The mode that a server asks for; `None` for a number that the clause does not have.
    pub fn from_wire(mode: u16) -> Option<Addressing> {
        [Addressing::Key, Addressing::Profile, Addressing::Reference].get(usize::from(mode)).copied()
    }
}

/// A resolved reference.
pub(crate) struct Target {
    /// A number that no other target of this process ever has; never 0.
    pub number: u64,
    pub locality: Locality,
    /// The reference that was resolved.
    pub ior: Arc<Ior>,
    pub key: Box<[u8]>,
    /// The common beginning of requests by key, in GIOP 1.2.
    pub head: Option<RequestHead>,
    pub version: Version,
    /// The code sets to announce on a connection without an agreement.
    pub code_sets: Option<(Narrow, Wide)>,
    /// Whether a CancelRequest may be sent. omniORB 4.2 processes the first one in an endless loop,
    /// so only servers that identify themselves as another ORB get any. No server has to act on one
    /// (clause 9.4.4).
    pub cancel: bool,
    /// Whether the server may know `_bind_priority_band`. TAO prints an error each time.
    pub binds_bands: bool,
    /// Whether it is the target of a forward.
    forwarded: bool,
    pub addressing: AtomicEnum<Addressing>,
    /// The reference's real-time components.
    pub facts: Option<Box<RtComponents>>,
    /// The connections of calls, for each set of overrides.
    pub plans: Plans,
}

impl Target {
    /// All members of a group.
    #[cfg(feature = "miop")]
    pub fn of_group(
        locality: Locality,
        ior: Arc<Ior>,
        head: RequestHead,
        code_sets: Option<(Narrow, Wide)>,
        facts: Option<RtComponents>,
    ) -> Target {
        Target {
            number: next_number(),
            locality,
            ior,
            key: Box::default(),
            head: Some(head),
            version: Version::V1_2,
            code_sets,
            cancel: false,
            binds_bands: true,
            forwarded: false,
            addressing: AtomicEnum::new(),
            facts: facts.map(Box::new),
            plans: Plans::default(),
        }
    }

    /// Whether it is the target of a forward.
    pub fn forwarded(&self) -> bool {
        self.forwarded
    }
}

/// A value behind an abstract interface.
pub(crate) trait HeldValue: Any + Send + Sync {
    /// The reference of the object that serves the operations of the value.
    fn served(&self, orb: &Orb) -> Result<Arc<Ior>>;
}

pub(crate) enum Locality {
    /// In this ORB.
    Local,
    Remote(Arc<Peer>),
    /// All members of a group.
    #[cfg(feature = "miop")]
    Group(Box<crate::group::GroupTarget>),
}

impl Object {
    pub(crate) fn new(orb: &Orb, ior: Ior) -> Object {
        Object(Arc::new(Inner {
            orb: orb.clone(),
            ior: Arc::new(ior),
            binding: Arc::default(),
            policies: Policies::OPEN,
            sets_policies: false,
            sets_times: false,
            rt_overrides: Overrides::default(),
            value: None,
        }))
    }

    /// A reference to an abstract interface that holds a value.
    pub(crate) fn of_value(orb: &Orb, value: Arc<dyn HeldValue>) -> Object {
        Object(Arc::new(Inner {
            orb: orb.clone(),
            ior: Arc::new(Ior::NIL),
            binding: Arc::default(),
            policies: Policies::OPEN,
            sets_policies: false,
            sets_times: false,
            rt_overrides: Overrides::default(),
            value: Some(value),
        }))
    }

    /// The value that it holds instead of an object.
    pub(crate) fn value(&self) -> Option<&dyn Any> {
        self.0.value.as_deref().map(|value| value as &dyn Any)
    }

    /// The ORB that the reference belongs to.
    pub fn orb(&self) -> &Orb {
        &self.0.orb
    }

    /// The complete reference.
    pub fn ior(&self) -> &Ior {
        &self.0.ior
    }

    /// The repository id in the reference; empty when unknown.
    pub fn type_id(&self) -> &str {
        &self.0.ior.type_id
    }

    /// The address in the reference, for tools and logs: host and port if it has an IIOP profile,
    /// else that of its first profile.
    ///
    /// # Real-time
    /// Allocates; takes no lock.
    pub fn address(&self) -> Option<String> {
        let tcp = self.0.ior.iiop_profiles().flatten().map(|p| format!("{}:{}", p.host, p.port)).next();
        let other =
            || crate::transports::address_profile(self.0.ior.profiles.first()?).ok().map(|p| p.address);
        #[cfg(feature = "miop")]
        let other = || crate::group::address(&self.0.ior).or_else(other);
        tcp.or_else(other)
    }

    /// The same object with other policies; those left open come from this reference.
    #[must_use]
    pub fn with_policies(&self, policies: Policies) -> Object {
        let policies = policies.or(self.0.policies);
        self.with(policies, self.0.rt_overrides.clone())
    }

    fn with(&self, policies: Policies, rt_overrides: Overrides) -> Object {
        let Inner { orb, ior, binding, value, .. } = &*self.0;
        Object(Arc::new(Inner {
            orb: orb.clone(),
            ior: ior.clone(),
            binding: binding.clone(),
            policies,
            sets_policies: policies != Policies::OPEN,
            sets_times: policies.sets_times(),
            rt_overrides,
            value: value.clone(),
        }))
    }

    /// The same object with these overrides and no others.
    pub(crate) fn overriding(&self, overrides: Overrides) -> Object {
        self.with(self.0.policies, overrides)
    }

    /// The reference's overrides of Real-Time CORBA policies, the narrowest scope.
    #[inline]
    pub fn rt_overrides(&self) -> &Overrides {
        &self.0.rt_overrides
    }

    /// A number that clones share and no other living reference has.
    pub(crate) fn identity(&self) -> u64 {
        Arc::as_ptr(&self.0.binding) as usize as u64
    }

    /// The policies of a call that begins now.
    ///
    /// # Errors
    /// TIMEOUT, COMPLETED_NO, when an end time of the object or the thread has passed.
    #[inline(always)]
    pub(crate) fn effective_policies(&self) -> Result<Effective> {
        if !self.has_narrower_policies() {
            return Ok(self.0.orb.effective_policies());
        }
        cold_path();
        self.narrower_policies()
    }

    /// Whether the object or the thread sets policies.
    #[inline(always)]
    pub(crate) fn has_narrower_policies(&self) -> bool {
        self.0.sets_policies || thread_sets_policies()
    }

    /// Whether a call may have start and end times: the object sets some, or the thread sets any
    /// policies.
    #[inline(always)]
    pub(crate) fn has_times(&self) -> bool {
        self.0.sets_times || thread_sets_policies()
    }

    /// The policies of the object, the thread and the ORB, the narrowest first.
    pub(crate) fn all_policies(&self) -> Policies {
        self.0.policies.or(thread_policies()).or(self.0.orb.policies())
    }

    #[inline(never)]
    pub(crate) fn narrower_policies(&self) -> Result<Effective> {
        if !self.has_times() {
            return Ok(self.0.orb.effective_policies_under(&self.0.policies));
        }
        let policies = self.all_policies().effective();
        if policies.timeout == Timeout::OVER {
            return Err(SystemException::new(Kind::Timeout, 0, Completion::No).detail(
                "the request was not sent: its end time (request_end or reply_end of the object or the \
                 thread) has passed",
            ));
        }
        Ok(policies)
    }

    /// The object of a reference.
    ///
    /// # Errors
    /// INV_OBJREF for the nil reference.
    pub fn from_ior(orb: &Orb, ior: Ior) -> Result<Object> {
        if ior.is_nil() {
            return Err(SystemException::from(Kind::InvObjref).detail("a nil reference"));
        }
        Ok(Object::new(orb, ior))
    }

    /// A number that is equal for equal references, below `limit`.
    pub fn hash_below(&self, limit: u32) -> u32 {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        self.ior().hash(&mut hasher);
        if limit == 0 { 0 } else { (hasher.finish() % u64::from(limit)) as u32 }
    }

    /// The object key, when the object lives in this ORB.
    pub(crate) fn local_key(&self, orb: &Orb) -> Option<Vec<u8>> {
        orb.handler().local_key(&self.0.ior)
    }

    /// The present target, borrowed if it has never changed.
    #[inline(always)]
    pub(crate) fn bound(&self) -> Result<Cow<'_, Arc<Target>>> {
        let bound = &self.0.binding;
        if !bound.changed.load(Ordering::Acquire)
            && let Some(target) = bound.first.get()
        {
            return Ok(Cow::Borrowed(target));
        }
        cold_path();
        self.target().map(Cow::Owned)
    }

    /// The present target.
    #[cold]
    pub(crate) fn target(&self) -> Result<Arc<Target>> {
        let served = self.0.value.as_ref().map(|value| value.served(&self.0.orb)).transpose()?;
        let bound = &self.0.binding;
        let mut binding = bound.now.lock();
        if let Some(target) = &binding.target {
            return Ok(target.clone());
        }
        let ior = binding.moved.as_ref().or(served.as_ref()).unwrap_or(&self.0.ior);
        let target = Arc::new(resolve(&self.0.orb, ior, false)?);
        binding.target = Some(target.clone());
        // If several threads race, the first one stays; `changed` is set by then.
        _ = bound.first.set(target.clone());
        Ok(target)
    }

    /// Sends further calls to another reference.
    pub(crate) fn forward(&self, ior: &Ior, permanent: bool) -> Result<()> {
        let ior = Arc::new(ior.clone());
        let target = Arc::new(resolve(&self.0.orb, &ior, !permanent)?);
        let mut binding = self.0.binding.now.lock();
        self.0.binding.changed.store(true, Ordering::Release);
        if permanent {
            binding.moved = Some(ior);
        }
        binding.target = Some(target);
        Ok(())
    }

    /// After a failure at `target`: returns to the original reference. `true` if `target` was that
    /// of a forward.
    pub(crate) fn forget_forward(&self, target: &Arc<Target>) -> bool {
        let mut binding = self.0.binding.now.lock();
        if binding.target.as_ref().is_some_and(|now| Arc::ptr_eq(now, target)) {
            self.0.binding.changed.store(true, Ordering::Release);
            binding.target = None;
        }
        target.forwarded
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn resolve(orb: &Orb, ior: &Arc<Ior>, forwarded: bool) -> Result<Target> {
    if let Some(key) = orb.handler().local_key(ior) {
        let facts = RtComponents::of(ior)?.map(Box::new);
        let head = RequestHead::new(&key);
        let key = key.into();
        let (locality, ior, version) = (Locality::Local, ior.clone(), Version::V1_2);
        return Ok(Target {
            number: next_number(),
            locality,
            ior,
            key,
            head,
            version,
            code_sets: None,
            cancel: false,
            binds_bands: true,
            forwarded,
            addressing: AtomicEnum::new(),
            facts,
            plans: Plans::default(),
        });
    }
    #[cfg(feature = "miop")]
    if let Some(target) = crate::group::resolve(orb, ior)? {
        return Ok(target);
    }
    if let Some(found) = transports::find(ior, orb.transports(), orb.transports().order()) {
        let code_sets = match &found.code_sets {
            Some(theirs) => {
                let (narrow, wide) = negotiate(&orb.config().code_sets(), theirs)?;
                Some((narrow, orb.config().wide(wide)))
            }
            None => None,
        };
        let version = found.version.min(orb.config().giop_version());
        let head = if version == Version::V1_2 { RequestHead::new(&found.key) } else { None };
        return Ok(Target {
            number: next_number(),
            locality: Locality::Remote(orb.peer(found.routes)),
            ior: ior.clone(),
            key: found.key.into(),
            head,
            version,
            code_sets,
            cancel: found.orb_type.is_some_and(|orb| orb != ORB_TYPE_OMNIORB),
            binds_bands: found.orb_type != Some(ORB_TYPE_TAO),
            forwarded,
            addressing: AtomicEnum::new(),
            facts: RtComponents::of(ior)?.map(Box::new),
            plans: Plans::default(),
        });
    }
    let seen = ior.profiles.iter().any(|profile| orb.transports().order().contains(&profile.tag));
    let why = match (ior.is_nil(), seen) {
        (true, _) => "the reference is nil",
        (_, false) => "the reference has no profile of a transport that this ORB uses",
        _ => "the reference's profiles are malformed, or good on another host only",
    };
    Err(SystemException::from(Kind::InvObjref).minor(minor::IMP_LIMIT_NO_PROFILE).detail(why))
}

impl Handle for Object {
    const MIN_WIRE: usize = 8;

    fn decode_handle(d: &mut Decoder<'_>) -> isorb_cdr::Result<Option<Object>> {
        let ior = Ior::decode(d)?;
        if ior.is_nil() {
            return Ok(None);
        }
        let orb = d.context().and_then(|context| context.downcast_ref::<Orb>());
        let orb = orb.ok_or(d.error(ErrorKind::NotRemotable))?;
        Ok(Some(Object::new(orb, ior)))
    }

    fn encode_handle(this: Option<&Object>, e: &mut Encoder<'_>) {
        match this {
            // A value is no object. It travels where an abstract interface is expected.
            Some(object) if object.0.value.is_some() => e.fail(ErrorKind::NotRemotable),
            Some(object) => {
                object.0.orb.handler().exported(object.ior());
                object.ior().encode(e);
            }
            None => Ior::NIL.encode(e),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        let no_values = self.0.value.is_none() && other.0.value.is_none();
        Arc::ptr_eq(&self.0, &other.0) || no_values && self.0.ior == other.0.ior
    }
}

impl Eq for Object {}

impl std::hash::Hash for Object {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.ior.hash(state);
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.address().unwrap_or_else(|| "?".into());
        write!(f, "Object({} at {at})", self.type_id())
    }
}

/// The stringified reference, `IOR:…`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.ior)
    }
}

const _: () = {
    // References travel as `Option<&Object>`; the compiler checks the traits.
    fn travels<'v, T: Encode<'v> + Decode<'v> + Arg<'v, Option<Object>>>() {}
    let _ = travels::<Option<&'static Object>>;
};
