//! Call-backs of the application for missing POAs and servants.
//!
//! A panic in any of them counts as UNKNOWN.

use super::{ObjectId, Poa};
use crate::server::write_exception;
use crate::{Object, Result, Servant};
use isorb_cdr::Encoder;
use isorb_giop::message::{self, ReplyStatus};
use isorb_giop::{Kind, SystemException};
use std::any::Any;
use std::sync::Arc;

/// `PortableServer::ForwardRequest`: the object is elsewhere.
#[derive(Clone, Debug)]
pub struct ForwardRequest {
    /// The target of this and later requests.
    pub to: Object,
    /// Whether the client may drop the old reference.
    pub permanent: bool,
}

/// Why a servant manager returned no servant, or the dispatcher made no upcall.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The client gets this exception.
    Exception(SystemException),
    /// The client is forwarded.
    Forward {
        /// The new target.
        to: Object,
        /// Whether the forward is permanent.
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
    /// A request, or `find_poa`, needs a missing child of `parent`. Creates it and returns true, or
    /// returns false. Requests for the new POA and those below it wait until this returns. At most
    /// one call runs for a name.
    ///
    /// # Errors
    /// Any system exception; the client, or the caller of `find_poa`, gets OBJ_ADAPTER with minor
    /// code OMG|1.
    fn unknown_adapter(&self, parent: &Poa, name: &str) -> Result<bool>;
}

/// Makes servants on demand, which the POA then retains (clause 15.3.6; RETAIN with
/// USE_SERVANT_MANAGER).
///
/// A POA calls one of the two methods at a time, on any thread.
pub trait ServantActivator: Send + Sync {
    /// A request came for an inactive object. The returned servant is active under the id from then
    /// on.
    ///
    /// # Errors
    /// [`ForwardRequest`] forwards the client; the client gets a system exception. In a POA with
    /// UNIQUE_ID, a servant that is active under another id gives OBJ_ADAPTER with minor code
    /// OMG|5.
    fn incarnate(&self, id: &ObjectId, poa: &Poa) -> Result<Servant, Refusal>;

    /// The object was deactivated and no upcall of it runs any more. `cleanup_in_progress`: its POA
    /// is destroyed or its manager deactivated. `remaining_activations`: the servant has other
    /// objects in this POA.
    fn etherealize(
        &self,
        id: &ObjectId,
        poa: &Poa,
        servant: Servant,
        cleanup_in_progress: bool,
        remaining_activations: bool,
    );
}

/// A value from [`preinvoke`](ServantLocator::preinvoke) for
/// [`postinvoke`](ServantLocator::postinvoke).
pub type Cookie = Option<Box<dyn Any>>;

/// Finds the servant for each request (clause 15.3.7; NON_RETAIN with USE_SERVANT_MANAGER).
///
/// Both methods are called on the thread of the upcall; several threads may call them at a time.
pub trait ServantLocator: Send + Sync {
    /// The servant for this request, and a value for [`postinvoke`](Self::postinvoke).
    ///
    /// # Errors
    /// [`ForwardRequest`] forwards the client; the client gets a system exception; `postinvoke` is
    /// not called then.
    fn preinvoke(&self, id: &[u8], poa: &Poa, operation: &str) -> Result<(Servant, Cookie), Refusal>;

    /// The upcall has ended.
    ///
    /// # Errors
    /// The client gets a system exception instead of the servant's reply.
    fn postinvoke(
        &self,
        id: &[u8],
        poa: &Poa,
        operation: &str,
        cookie: Cookie,
        servant: Servant,
    ) -> Result<()>;
}

/// An activator or a locator, as the POA's retention policy requires.
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
            // A permanent forward came with GIOP 1.2.
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
