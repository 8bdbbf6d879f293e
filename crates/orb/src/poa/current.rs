//! `PortableServer::Current`: what the running upcall is about.

use super::active_map::Active;
use super::poa::Inner;
use super::{NoContext, ObjectId, Poa};
use crate::{Object, Servant};
use isorb_giop::SystemException;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

/// The upcall that runs on this thread; in an upcall that was made from inside another one, the inner one (clause
/// 15.3.10). Servants that take an [`Upcall`](crate::Upcall) know most of this from there already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Current;

impl Current {
    /// The POA that dispatched the request.
    ///
    /// # Errors
    /// [`NoContext`] outside of an upcall, as for all of these.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn poa(self) -> Result<Poa, NoContext> {
        top(|frame, _| frame.poa().clone())
    }

    /// The object's id.
    ///
    /// # Errors
    /// [`NoContext`].
    ///
    /// # Real-time
    /// Allocates nothing for an object in the active object map; copies the id of one that a default servant or a
    /// locator serves. [`with_object_id`](Self::with_object_id) never does.
    pub fn object_id(self) -> Result<ObjectId, NoContext> {
        top(|frame, id| match frame {
            Frame::Active(active) => active.id.clone(),
            _ => id.into(),
        })
    }

    /// Shows the object's id to a function, which must not make calls.
    ///
    /// # Errors
    /// [`NoContext`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn with_object_id<T>(self, look: impl FnOnce(&[u8]) -> T) -> Result<T, NoContext> {
        top(|_, id| look(id))
    }

    /// The servant.
    ///
    /// # Errors
    /// [`NoContext`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn servant(self) -> Result<Servant, NoContext> {
        top(|frame, _| frame.servant().cloned())?.ok_or(NoContext)
    }

    /// A reference to the object.
    ///
    /// # Errors
    /// [`NoContext`], as a system exception; or what making the reference raises.
    ///
    /// # Real-time
    /// Allocates the reference.
    pub fn reference(self) -> Result<Object, SystemException> {
        let (poa, servant, id) = (self.poa()?, self.servant()?, self.object_id()?);
        poa.make_reference(servant.interface().id, &id)
    }
}

/// What runs.
enum Frame {
    /// User code that is no servant: a servant manager, an adapter activator.
    Manager(Poa),
    /// An upcall of an object in the active object map.
    Active(Arc<Active>),
    /// An upcall of a servant that is not in the map, and where its object's id starts in `ids`.
    Servant { poa: Poa, servant: Servant, ids_from: usize },
}

impl Frame {
    fn poa(&self) -> &Poa {
        match self {
            Frame::Manager(poa) | Frame::Servant { poa, .. } => poa,
            Frame::Active(active) => &active.poa,
        }
    }

    fn servant(&self) -> Option<&Servant> {
        match self {
            Frame::Manager(_) => None,
            Frame::Active(active) => Some(&active.servant),
            Frame::Servant { servant, .. } => Some(servant),
        }
    }
}

/// What runs on this thread, outermost first, and the ids of objects that are not in the map one after the other. The
/// memory is kept from request to request.
struct Stack {
    frames: Vec<Frame>,
    ids: Vec<u8>,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { frames: Vec::new(), ids: Vec::new() }) };
    /// The innermost frame, above all in the stack, if it is an upcall of an object in the map: most threads never have
    /// another. It goes to the stack before anything comes on top of it, and before the stack is looked at.
    static INNERMOST: Cell<Option<Arc<Active>>> = const { Cell::new(None) };
    static TOKEN: u8 = const { 0 };
}

/// Makes what this thread's first request would make.
pub(crate) fn warm_up() {
    STACK.with_borrow_mut(|stack| {
        if stack.frames.capacity() == 0 {
            stack.reserve();
        }
    });
}

/// A number that no other thread has while this one lives.
pub(super) fn thread_token() -> usize {
    TOKEN.with(|token| ptr::from_ref(token).addr())
}

fn top<T>(look: impl FnOnce(&Frame, &[u8]) -> T) -> Result<T, NoContext> {
    with_stack(|stack| match stack.frames.last() {
        None | Some(Frame::Manager(_)) => Err(NoContext),
        Some(frame @ Frame::Active(active)) => Ok(look(frame, &active.id)),
        Some(frame @ Frame::Servant { ids_from, .. }) => Ok(look(frame, &stack.ids[*ids_from..])),
    })
}

/// Whether this thread runs anything for this ORB, so that waiting for the ORB's requests to end would be for ever.
pub(super) fn inside(orb: usize) -> bool {
    with_stack(|stack| stack.frames.iter().any(|frame| frame.poa().orb_number() == orb))
}

/// Whether this thread runs an upcall of this very object.
pub(super) fn serves(poa: &Poa, id: &[u8]) -> bool {
    with_stack(|stack| {
        stack.frames.iter().any(|frame| match frame {
            Frame::Active(active) => active.poa == *poa && active.id[..] == *id,
            _ => false,
        })
    })
}

/// If the innermost upcall of this thread is one of this POA on this servant: the object's id.
pub(super) fn id_of(poa: &Inner, servant: &Servant) -> Option<ObjectId> {
    top(|frame, id| (frame.poa().is(poa) && frame.servant() == Some(servant)).then(|| ObjectId::from(id)))
        .ok()
        .flatten()
}

/// An upcall of an object in the map starts on this thread.
#[inline(always)]
pub(super) fn push_active(active: Arc<Active>) {
    if let Some(outer) = INNERMOST.replace(Some(active)) {
        stack_active(outer);
    }
}

#[cold]
fn stack_active(active: Arc<Active>) {
    STACK.with_borrow_mut(|stack| stack.push(Frame::Active(active)));
}

/// Puts the innermost frame onto the stack.
fn settle() {
    if let Some(active) = INNERMOST.take() {
        stack_active(active);
    }
}

/// Shows the whole stack.
fn with_stack<T>(look: impl FnOnce(&Stack) -> T) -> T {
    settle();
    STACK.with_borrow(look)
}

/// An upcall of another servant starts on this thread.
pub(super) fn push_servant(poa: Poa, servant: Servant, id: &[u8]) {
    settle();
    STACK.with_borrow_mut(|stack| {
        let ids_from = stack.ids.len();
        stack.push(Frame::Servant { poa, servant, ids_from });
        stack.ids.extend_from_slice(id);
    });
}

/// What was pushed last, and not by [`push_active`] alone, is over.
#[cold]
pub(super) fn pop() {
    let frame = STACK.with_borrow_mut(|stack| {
        let frame = stack.frames.pop();
        if let Some(Frame::Servant { ids_from, .. }) = &frame {
            stack.ids.truncate(*ids_from);
        }
        frame
    });
    // May run a servant's destructor, which may look at the stack.
    drop(frame);
}

/// As [`pop`], of what [`push_active`] pushed.
#[inline(always)]
pub(super) fn pop_active() {
    match INNERMOST.take() {
        Some(active) => drop(active),
        None => pop(),
    }
}

impl Stack {
    #[inline(always)]
    fn push(&mut self, frame: Frame) {
        if self.frames.capacity() == 0 {
            self.reserve();
        }
        self.frames.push(frame);
    }

    /// The memory for the usual depth is made with a thread's first frame.
    #[cold]
    fn reserve(&mut self) {
        self.frames.reserve(16);
        self.ids.reserve(1024);
    }
}

/// User code that is no servant runs while this lives.
pub(super) struct Marker(());

impl Marker {
    pub fn new(poa: &Poa) -> Marker {
        let frame = Frame::Manager(poa.clone());
        settle();
        STACK.with_borrow_mut(|stack| stack.push(frame));
        Marker(())
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        pop();
    }
}
