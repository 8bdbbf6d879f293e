//! The client's side: a token with each request that goes over TLS to a server that takes one.

use crate::Credentials;
use isorb::interceptor::{ClientRequestInfo, ClientRequestInterceptor, InitError, OrbInitInfo, Raised};
use isorb::{Kind, SystemException};
use isorb_giop::component::TAG_CSI_SEC_MECH_LIST;
use isorb_giop::context::SECURITY_ATTRIBUTE;
use isorb_giop::csi::gssup::InitialToken;
use isorb_giop::csi::{
    ContextError, EstablishContext, GSSUP_OID, IdentityToken, MAX_TOKEN, SasMessage, SecMechList, options,
};
use isorb_rt::sync::PiMutex;
use std::sync::Arc;

/// The most kinds of servers of which the contexts are kept.
const MOST: usize = 64;

/// Sends a user name and password to servers that take them.
///
/// That is, with requests over TLS to references with TAG_CSI_SEC_MECH_LIST, the first mechanism of
/// which with GSSUP counts. Other requests go without.
///
/// # Real-time
/// The context is encoded once for each kind of server. Later requests look for the component,
/// compare its octets under a PI lock and copy the context; they allocate nothing.
pub struct ClientSecurity {
    credentials: Credentials,
    contexts: PiMutex<Vec<Prepared>>,
}

/// The context for servers with the same component; `None` if they take no password.
struct Prepared {
    component: Box<[u8]>,
    context: Option<Arc<[u8]>>,
}

impl ClientSecurity {
    /// The side of a client with these credentials.
    pub fn new(credentials: Credentials) -> ClientSecurity {
        ClientSecurity { credentials, contexts: PiMutex::new(Vec::with_capacity(MOST)) }
    }

    /// Adds it to an ORB, in [`OrbBuilder::register`](isorb::OrbBuilder::register).
    ///
    /// # Errors
    /// [`InitError::DuplicateName`] if the ORB has one.
    pub fn register(self, info: &mut OrbInitInfo) -> Result<(), InitError> {
        info.add_client_request_interceptor(Arc::new(self))
    }

    fn context(&self, component: &[u8]) -> Result<Option<Arc<[u8]>>, SystemException> {
        let known = |contexts: &[Prepared]| {
            contexts.iter().find(|it| *it.component == *component).map(|it| it.context.clone())
        };
        if let Some(context) = known(&self.contexts.lock()) {
            return Ok(context);
        }
        let context = self.encode(component)?;
        let mut contexts = self.contexts.lock();
        if contexts.len() == MOST {
            contexts.remove(0);
        }
        contexts.push(Prepared { component: component.into(), context: context.clone() });
        Ok(context)
    }

    #[cold]
    fn encode(&self, component: &[u8]) -> Result<Option<Arc<[u8]>>, SystemException> {
        // A component that cannot be read is not the fault of this call.
        let list = SecMechList::read(component).unwrap_or_default();
        let takes_passwords = |supports: u16, mechanism: &[u8]| {
            supports & options::ESTABLISH_TRUST_IN_CLIENT != 0 && mechanism == GSSUP_OID
        };
        let mut layers = list.mechanisms.iter().map(|mechanism| &mechanism.authentication);
        let Some(layer) = layers.find(|layer| takes_passwords(layer.supports, &layer.mechanism)) else {
            return Ok(None);
        };
        let Credentials { user, password } = &self.credentials;
        let too_long = |_| {
            let detail = format!("user name and password make a token of more than {MAX_TOKEN} octets");
            SystemException::from(Kind::BadParam).detail(detail)
        };
        let token = InitialToken { user: user.as_bytes(), password, target: &layer.target };
        let token = token.write().map_err(too_long)?;
        let (identity, authorization) = (IdentityToken::Absent, Vec::new());
        let context = EstablishContext { id: 0, authorization, identity, token: &token };
        Ok(Some(SasMessage::Establish(context).write().map_err(too_long)?.into()))
    }
}

impl ClientRequestInterceptor for ClientSecurity {
    fn name(&self) -> &str {
        "isorb-csi"
    }

    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let Some(component) = info.effective_component_data(TAG_CSI_SEC_MECH_LIST) else { return Ok(()) };
        if let Some(context) = self.context(component)? {
            info.add_confidential_service_context(SECURITY_ATTRIBUTE, &context)?;
        }
        Ok(())
    }

    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let Ok(context) = info.reply_service_context(SECURITY_ATTRIBUTE) else { return Ok(()) };
        let (Ok(SasMessage::Error(error)), Ok(exception)) =
            (SasMessage::read(context), info.received_exception())
        else {
            return Ok(());
        };
        let user = &self.credentials.user;
        let why = match error.major {
            ContextError::INVALID_EVIDENCE => "the user name or password is wrong, or for another target",
            ContextError::INVALID_MECHANISM => "it does not take passwords in the form of GSSUP",
            _ => "it does not say why",
        };
        let (major, minor) = (error.major, error.minor);
        let detail = format!("the server refused user {user:?}: {why} (context error {major}, {minor})");
        Err(exception.detail(detail).into())
    }
}

impl std::fmt::Debug for ClientSecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSecurity").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}
