//! `PortableServer::Current`: the running upcall.

use super::active_map::ActiveObject;
use super::poa::Inner;
use super::{NoContext, ObjectId, Poa};
use crate::{Object, Servant};
use isorb_giop::SystemException;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

/// The upcall that runs on this thread; of nested upcalls the innermost (clause 15.3.10). Servants
/// with an [`Upcall`](crate::Upcall) know most of this already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Current;

impl Current {
    /// The POA that dispatched the request.
    ///
    /// # Errors
    /// [`NoContext`] outside of an upcall, as for all methods here.
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
    /// Allocates nothing for an object in the active object map; copies the id of an object that a
    /// default servant or a locator serves. [`with_object_id`](Self::with_object_id) never
    /// allocates.
    pub fn object_id(self) -> Result<ObjectId, NoContext> {
        top(|frame, id| match frame {
            Frame::Active(active) => active.id.clone(),
            _ => id.into(),
        })
    }

    /// Passes the object's id to a function, which must not make calls.
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
    /// [`NoContext`] as a system exception; the errors of making the reference.
    ///
    /// # Real-time
    /// Allocates the reference.
    pub fn reference(self) -> Result<Object, SystemException> {
        let (poa, servant, id) = (self.poa()?, self.servant()?, self.object_id()?);
        poa.make_reference(servant.interface().id, &id)
    }
}

/// An activity of the thread.
enum Frame {
    /// User code outside servants: a servant manager, an adapter activator.
    Manager(Poa),
    /// An upcall of an object in the active object map.
    Active(Arc<ActiveObject>),
    /// An upcall of a servant that is not in the map, and the start of its object's id in `ids`.
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

/// The activities of this thread, outermost first, and the ids of objects outside the map, one
/// after the other. The memory is kept from request to request.
struct Stack {
    frames: Vec<Frame>,
    ids: Vec<u8>,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { frames: Vec::new(), ids: Vec::new() }) };
    /// The innermost frame, above all others, if it is an upcall of an object in the map: most
    /// threads never have another one. It moves to the stack before another frame is pushed and
    /// before the stack is read.
    static INNERMOST: Cell<Option<Arc<ActiveObject>>> = const { Cell::new(None) };
    static TOKEN: u8 = const { 0 };
}

/// Allocates the memory that this thread's first request would allocate.
pub(crate) fn warm_up() {
    STACK.with_borrow_mut(|stack| {
        if stack.frames.capacity() == 0 {
            stack.reserve();
        }
    });
}

/// A number that no other living thread has.
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

/// Whether this thread runs code of this ORB, so that waiting for the ORB's requests would never
/// end.
pub(super) fn inside(orb: usize) -> bool {
    with_stack(|stack| stack.frames.iter().any(|frame| frame.poa().orb_number() == orb))
}

/// Whether this thread runs an upcall of this object.
pub(super) fn serves(poa: &Poa, id: &[u8]) -> bool {
    with_stack(|stack| {
        stack.frames.iter().any(|frame| match frame {
            Frame::Active(active) => active.poa == *poa && active.id[..] == *id,
            _ => false,
        })
    })
}

/// The object's id, if the innermost upcall of this thread is one of this POA and this servant.
pub(super) fn id_of(poa: &Inner, servant: &Servant) -> Option<ObjectId> {
    top(|frame, id| (frame.poa().is(poa) && frame.servant() == Some(servant)).then(|| ObjectId::from(id)))
        .ok()
        .flatten()
}

/// An upcall of an object in the map starts on this thread.
#[inline(always)]
pub(super) fn push_active(active: Arc<ActiveObject>) {
    if let Some(outer) = INNERMOST.replace(Some(active)) {
        stack_active(outer);
    }
}

#[cold]
fn stack_active(active: Arc<ActiveObject>) {
    STACK.with_borrow_mut(|stack| stack.push(Frame::Active(active)));
}

/// Moves the innermost frame to the stack.
fn spill() {
    if let Some(active) = INNERMOST.take() {
        stack_active(active);
    }
}

/// Passes the whole stack to a function.
fn with_stack<T>(look: impl FnOnce(&Stack) -> T) -> T {
    spill();
    STACK.with_borrow(look)
}

/// An upcall of another servant starts on this thread.
pub(super) fn push_servant(poa: Poa, servant: Servant, id: &[u8]) {
    spill();
    STACK.with_borrow_mut(|stack| {
        let ids_from = stack.ids.len();
        stack.push(Frame::Servant { poa, servant, ids_from });
        stack.ids.extend_from_slice(id);
    });
}

/// Ends the activity that was pushed last, unless only [`push_active`] pushed it.
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

/// As [`pop`], for [`push_active`].
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

    /// Allocates for the usual depth, with a thread's first frame.
    #[cold]
    fn reserve(&mut self) {
        self.frames.reserve(16);
        self.ids.reserve(1024);
    }
}

/// User code outside servants runs while this lives.
pub(super) struct ManagerCall(());

impl ManagerCall {
    pub fn new(poa: &Poa) -> ManagerCall {
        let frame = Frame::Manager(poa.clone());
        spill();
        STACK.with_borrow_mut(|stack| stack.push(frame));
        ManagerCall(())
    }
}

impl Drop for ManagerCall {
    fn drop(&mut self) {
        pop();
    }
}
