//! What the application can hang into a POA so that it is asked when a POA or a servant is missing.
//!
//! A panic in any of these is as if it had raised UNKNOWN.

use super::{ObjectId, Poa};
use crate::server::write_exception;
use crate::{Object, Result, Servant};
use isorb_cdr::Encoder;
use isorb_giop::message::{self, ReplyStatus};
use isorb_giop::{Kind, SystemException};
use std::any::Any;
use std::sync::Arc;

/// `PortableServer::ForwardRequest`: the object lives elsewhere.
#[derive(Clone, Debug)]
pub struct ForwardRequest {
    /// Where the client is to send this request and those that follow.
    pub to: Object,
    /// Whether the client may forget the old reference for good.
    pub permanent: bool,
}

/// Why a servant manager gave no servant, or the dispatcher no upcall.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The client gets this exception.
    Exception(SystemException),
    /// The client is sent elsewhere.
    Forward {
        /// Where to.
        to: Object,
        /// For good?
        permanent: bool,
    },
}

impl From<SystemException> for Refusal {
    fn from(exception: SystemException) -> Refusal {
        Refusal::Exception(exception)
    }
}

impl From<Kind> for Refusal {
    fn from(kind: Kind) -> Refusal {
        Refusal::Exception(kind.into())
    }
}

impl From<ForwardRequest> for Refusal {
    fn from(forward: ForwardRequest) -> Refusal {
        Refusal::Forward { to: forward.to, permanent: forward.permanent }
    }
}

/// Makes child POAs on demand (clause 15.3.4).
pub trait AdapterActivator: Send + Sync {
    /// A request, or `find_poa`, wants a child of `parent` that does not exist. Creates it and says true, or says false.
    /// Requests for the new POA and for those below it wait until this returns. It is called once at a time for a name.
    ///
    /// # Errors
    /// Any system exception; the client, or the caller of `find_poa`, gets OBJ_ADAPTER with minor code OMG|1.
    fn unknown_adapter(&self, parent: &Poa, name: &str) -> Result<bool>;
}

/// Makes servants on demand, which the POA then keeps (clause 15.3.6; RETAIN with USE_SERVANT_MANAGER).
///
/// A POA calls one of the two at a time, in any thread.
pub trait ServantActivator: Send + Sync {
    /// A request came for an object that is not active. The servant that this gives is active under the id from then on.
    ///
    /// # Errors
    /// [`ForwardRequest`] sends the client elsewhere, a system exception goes to it. A servant that is active under
    /// another id, in a POA with UNIQUE_ID, makes OBJ_ADAPTER with minor code OMG|5.
    fn incarnate(&self, id: &ObjectId, poa: &Poa) -> Result<Servant, Refusal>;

    /// The object was deactivated and no upcall runs in it any more. `cleanup_in_progress`: because its POA is destroyed or
    /// its manager deactivated. `remaining_activations`: the servant still stands behind other objects of this POA.
    fn etherealize(
        &self,
        id: &ObjectId,
        poa: &Poa,
        servant: Servant,
        cleanup_in_progress: bool,
        remaining_activations: bool,
    );
}

/// What [`preinvoke`](ServantLocator::preinvoke) hands to [`postinvoke`](ServantLocator::postinvoke).
pub type Cookie = Option<Box<dyn Any>>;

/// Finds the servant for each request (clause 15.3.7; NON_RETAIN with USE_SERVANT_MANAGER).
///
/// Both are called in the thread that runs the upcall; several threads may be in them at a time.
pub trait ServantLocator: Send + Sync {
    /// The servant for this request, and whatever [`postinvoke`](Self::postinvoke) is to know.
    ///
    /// # Errors
    /// [`ForwardRequest`] sends the client elsewhere, a system exception goes to it; `postinvoke` is not called then.
    fn preinvoke(&self, id: &[u8], poa: &Poa, operation: &str) -> Result<(Servant, Cookie), Refusal>;

    /// The upcall is over.
    ///
    /// # Errors
    /// A system exception goes to the client instead of whatever the servant gave.
    fn postinvoke(
        &self,
        id: &[u8],
        poa: &Poa,
        operation: &str,
        cookie: Cookie,
        servant: Servant,
    ) -> Result<()>;
}

/// One or the other, as the POA's retention policy asks.
#[derive(Clone)]
pub enum ServantManager {
    /// For RETAIN.
    Activator(Arc<dyn ServantActivator>),
    /// For NON_RETAIN.
    Locator(Arc<dyn ServantLocator>),
}

impl ServantManager {
    /// An activator.
    pub fn activator(activator: impl ServantActivator + 'static) -> ServantManager {
        ServantManager::Activator(Arc::new(activator))
    }

    /// A locator.
    pub fn locator(locator: impl ServantLocator + 'static) -> ServantManager {
        ServantManager::Locator(Arc::new(locator))
    }
}

impl std::fmt::Debug for ServantManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ServantManager::Activator(_) => "ServantManager::Activator(..)",
            ServantManager::Locator(_) => "ServantManager::Locator(..)",
        })
    }
}

/// Writes a refusal in place of the results that begin at `head`.
#[cold]
pub(crate) fn write_refusal(e: &mut Encoder<'_>, status_at: usize, head: usize, refusal: &Refusal) {
    match refusal {
        Refusal::Exception(exception) => write_exception(e, status_at, head, exception),
        Refusal::Forward { to, permanent } => {
            e.truncate(head);
            // Forwarding for good came with GIOP 1.2.
            let for_good = *permanent && e.text().version >= isorb_cdr::Version::V1_2;
            let status =
                if for_good { ReplyStatus::LocationForwardPerm } else { ReplyStatus::LocationForward };
            e.patch(status_at, status as u32);
            let body = message::begin_body(e);
            to.ior().encode(e);
            message::end_body(e, body);
        }
    }
}
