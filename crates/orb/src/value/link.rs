//! Links from the state of a value to values.

use super::Value;
use isorb_cdr::{AwaitsValue, Decoder, Encoder, ErrorKind, Result, ValueObject};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// A member of a value's state with a valuetype as its type: null, a value, or the way back to a
/// value that leads here.
///
/// A link owns its value, except the one that closes a cycle: that one is weak, so cycles are
/// freed like everything else. [`Link::get`] gives the value in both cases. A weak link leads
/// nowhere (`None`, and null on the wire) when nothing owns its value any more. That cannot happen
/// while the value is owned that the graph was reached by: a parameter, a result.
///
/// ```
/// # isorb::doc_value!();
/// use isorb::Link;
/// // A ring of one: the state needs a link to a value that does not exist yet.
/// let back = Link::unset();
/// let ring = Ring::from(RingState { next: back.clone() });
/// back.set(&ring);
/// assert_eq!(ring.next.get(), Some(ring.clone()));
/// ```
pub struct Link<V>(Inner<V>);

enum Inner<V> {
    Null,
    Owner(V),
    Back(Arc<BackReference<V>>),
}

/// The target of a weak link, and its type.
struct BackReference<V> {
    object: OnceLock<Weak<dyn ValueObject>>,
    value: std::marker::PhantomData<fn() -> V>,
}

impl<V: Value> AwaitsValue for BackReference<V> {
    fn value_is_read(&self, object: &Arc<dyn ValueObject>) -> bool {
        V::from_object(object.clone()).is_some() && self.object.set(Arc::downgrade(object)).is_ok()
    }
}

impl<V: Value> Link<V> {
    /// A link to nothing.
    pub const NULL: Link<V> = Link(Inner::Null);

    /// A weak link; [`Link::set`] names its value later. Until then it leads nowhere.
    pub fn unset() -> Link<V> {
        Link(Inner::Back(BackReference::new()))
    }

    /// Leads a link, and its clones, to a value that it does not own. Only the first call for a
    /// link that [`Link::unset`] made counts; says whether it was that.
    pub fn set(&self, value: &V) -> bool {
        match &self.0 {
            Inner::Back(back) => back.object.set(Arc::downgrade(&value.object())).is_ok(),
            _ => false,
        }
    }

    /// A weak link to a value.
    pub fn back_to(value: &V) -> Link<V> {
        let link = Link::unset();
        link.set(value);
        link
    }

    /// The value; `None` for null.
    ///
    /// # Real-time
    /// Allocates nothing.
    pub fn get(&self) -> Option<V> {
        match &self.0 {
            Inner::Null => None,
            Inner::Owner(value) => Some(value.clone()),
            Inner::Back(back) => V::from_object(back.object.get()?.upgrade()?),
        }
    }

    /// Whether it leads to no value.
    pub fn is_null(&self) -> bool {
        self.get().is_none()
    }

    /// Writes the value.
    ///
    /// # Real-time
    /// As [`Encoder::value`].
    pub fn encode(&self, e: &mut Encoder<'_>) {
        match &self.0 {
            Inner::Null => e.value(None),
            Inner::Owner(value) => V::encode_handle(Some(value), e),
            Inner::Back(back) => match back.object.get().and_then(Weak::upgrade) {
                Some(object) => e.value_kept(&object),
                None => e.value(None),
            },
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// As [`decode_value`](super::decode_value), but not for a value that is still being read: the
    /// link closes a cycle and is weak.
    ///
    /// # Real-time
    /// Allocates.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Link<V>> {
        use super::codec::{Lookup, find};
        Ok(Link(match find(d, V::value_type())? {
            Lookup::Null => Inner::Null,
            Lookup::Read(object) => {
                Inner::Owner(V::from_object(object).ok_or_else(|| d.error(ErrorKind::Value))?)
            }
            Lookup::Open(number) => {
                let back = BackReference::new();
                d.await_value(number, back.clone());
                Inner::Back(back)
            }
        }))
    }
}

impl<V: Value> BackReference<V> {
    fn new() -> Arc<BackReference<V>> {
        Arc::new(BackReference { object: OnceLock::new(), value: std::marker::PhantomData })
    }
}

impl<V: Clone> Clone for Link<V> {
    fn clone(&self) -> Self {
        Link(match &self.0 {
            Inner::Null => Inner::Null,
            Inner::Owner(value) => Inner::Owner(value.clone()),
            Inner::Back(back) => Inner::Back(back.clone()),
        })
    }
}

impl<V> Default for Link<V> {
    fn default() -> Self {
        Link(Inner::Null)
    }
}

impl<V> From<V> for Link<V> {
    fn from(value: V) -> Self {
        Link(Inner::Owner(value))
    }
}

impl<V: Clone> From<&V> for Link<V> {
    fn from(value: &V) -> Self {
        value.clone().into()
    }
}

impl<V> From<Option<V>> for Link<V> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Link(Inner::Null), Link::from)
    }
}

/// Whether both lead to the same value, or to none. The states of two values are not compared: a
/// graph may lead to one value on very many ways.
impl<V: Value> PartialEq for Link<V> {
    fn eq(&self, other: &Self) -> bool {
        match (self.get(), other.get()) {
            (Some(a), Some(b)) => a.is_same(&b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

/// The repository id of the value; its state is not printed, because graphs may be large or cyclic.
impl<V: Value> fmt::Debug for Link<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => write!(f, "Link({})", value.repository_id()),
            None => f.write_str("Link(null)"),
        }
    }
}
