//! The server's side: the component in references, and the check of each request.

use crate::LOG;
use crate::check::CredentialCheck;
use crate::guesses::{FREE, Guesses};
use crate::verified::VerifiedTokens;
use isorb::interceptor::{
    InitError, OrbInitInfo, Raised, SecureComponent, ServerRequestInfo, ServerRequestInterceptor,
    TaggedComponent,
};
use isorb::transport::PeerIdentity;
use isorb::{Kind, Principal, SystemException};
use isorb_giop::context::SECURITY_ATTRIBUTE;
use isorb_giop::csi::gssup::InitialToken;
use isorb_giop::csi::{
    AsContext, CompoundSecMech, ContextError, EstablishContext, ExportedName, GSSUP_OID, IdentityToken,
    SasContext, SasMessage, SecMechList, TransportMech, options,
};
use isorb_rt::log;
use isorb_rt::time::now_ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest user name, in octets.
const LONGEST_NAME: usize = 256;

/// Asks clients for user names and passwords, and checks them.
///
/// The name is the [`Caller::principal`](isorb::Caller::principal) of the request, for servants,
/// interceptors and the [`Guard`](isorb::Guard). A wrong password is NO_PERMISSION, COMPLETED_NO,
/// and a warning in the log.
pub struct ServerSecurity {
    check: Box<dyn CredentialCheck>,
    target: String,
    required: bool,
    trusted: Vec<String>,
    verified: VerifiedTokens,
    guesses: Guesses,
    refused: AtomicU64,
}

/// Why a context is refused.
struct Refused {
    id: u64,
    major: i32,
    why: String,
}

/// An accepted context, and its principal.
struct Accepted {
    id: u64,
    principal: Option<Arc<Principal>>,
}

impl ServerSecurity {
    /// The side of a server that requires a password with every request, for any target.
    pub fn new(check: impl CredentialCheck + 'static) -> ServerSecurity {
        ServerSecurity {
            check: Box::new(check),
            target: String::new(),
            required: true,
            trusted: Vec::new(),
            verified: VerifiedTokens::new(),
            guesses: Guesses::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// The name of the server or its domain, which references carry. A token for another target is
    /// refused; one without a target is for any.
    pub fn target(self, name: impl Into<String>) -> ServerSecurity {
        ServerSecurity { target: name.into(), ..self }
    }

    /// Whether requests without a principal are refused, also those over other transports. If not,
    /// they have no principal, and an access policy may tell them apart.
    pub fn required(self, required: bool) -> ServerSecurity {
        ServerSecurity { required, ..self }
    }

    /// Lets a peer speak for other principals (identity assertion): a user by name, or
    /// `certificate:NAME` for the common name of a client's certificate.
    pub fn trust(mut self, peer: impl Into<String>) -> ServerSecurity {
        self.trusted.push(peer.into());
        self
    }

    /// Adds it to an ORB, in [`OrbBuilder::register`](isorb::OrbBuilder::register).
    ///
    /// # Errors
    /// [`InitError::DuplicateName`] if the ORB has one.
    pub fn register(self, info: &mut OrbInitInfo) -> Result<(), InitError> {
        let this = Arc::new(self);
        info.add_server_request_interceptor(this.clone())?;
        info.set_secure_component(this);
        Ok(())
    }

    fn accept(&self, peer: &PeerIdentity, data: &[u8]) -> Result<Accepted, Refused> {
        let wrong = |id, major, why: &str| Refused { id, major, why: why.into() };
        let context = match SasMessage::read(data) {
            Ok(SasMessage::Establish(context)) => context,
            Ok(SasMessage::InContext { id, .. }) => {
                let why = "it names an earlier context, and this server keeps none; send the whole one";
                return Err(wrong(id, ContextError::NO_CONTEXT, why));
            }
            Ok(_) => return Err(wrong(0, ContextError::INVALID_EVIDENCE, "it is one for replies")),
            Err(error) => return Err(wrong(0, ContextError::INVALID_EVIDENCE, &error.to_string())),
        };
        let EstablishContext { id, identity, token, .. } = context;
        let user = match token {
            [] => None,
            _ if !peer.encrypted => {
                let why = "a password came over a connection without TLS; change it";
                return Err(wrong(id, ContextError::INVALID_EVIDENCE, why));
            }
            _ => {
                let known = self.verified.user(token, self.check.generation());
                Some(known.map_or_else(|| self.authenticate(id, peer, token), Ok)?)
            }
        };
        let principal = match identity {
            IdentityToken::Absent => user,
            IdentityToken::Anonymous => None,
            IdentityToken::PrincipalName(name) => Some(
                self.assert(peer, user.as_deref(), name).map_err(|(major, why)| wrong(id, major, &why))?,
            ),
            _ => {
                let why = "it asserts an identity by certificates or an X.501 name, which is not taken";
                return Err(wrong(id, ContextError::INVALID_MECHANISM, why));
            }
        };
        Ok(Accepted { id, principal })
    }

    #[cold]
    fn authenticate(&self, id: u64, peer: &PeerIdentity, token: &[u8]) -> Result<Arc<Principal>, Refused> {
        let wrong = |major, why: String| Refused { id, major, why };
        let read = InitialToken::read(token);
        let read =
            read.map_err(|error| wrong(ContextError::INVALID_MECHANISM, format!("no GSSUP token: {error}")))?;
        let evidence = |why| wrong(ContextError::INVALID_EVIDENCE, why);
        if !read.target.is_empty() {
            let named = ExportedName::read(read.target).map(|target| target.name);
            if !self.target.is_empty() && named != Ok(self.target.as_bytes()) {
                return Err(evidence(format!("the token is for another target than {:?}", self.target)));
            }
        }
        let user =
            str::from_utf8(read.user).ok().filter(|user| !user.is_empty() && user.len() <= LONGEST_NAME);
        let Some(user) = user else {
            return Err(evidence("the user name is no text, empty or too long".into()));
        };
        let address = peer.addresses.map(|(peer, _)| peer.ip().to_canonical());
        // Before the check: a reload in between makes the answer one of the past.
        let generation = self.check.generation();
        if let Some(pause) = self.guesses.pause(address, generation, now_ns()) {
            return Err(evidence(format!(
                "{FREE} wrong passwords or more came from its address; the next one is looked at in {} s",
                pause.as_secs() + 1
            )));
        }
        if !self.check.is_valid(user, read.password) {
            self.guesses.wrong(address, generation, now_ns());
            return Err(evidence(format!("wrong user name or password of {user:?}")));
        }
        let principal = Arc::new(Principal { name: user.to_owned(), asserted_by: None });
        self.verified.add(token, generation, principal.clone());
        Ok(principal)
    }

    /// The principal that a trusted peer speaks for.
    #[cold]
    fn assert(
        &self,
        peer: &PeerIdentity,
        user: Option<&Principal>,
        name: &[u8],
    ) -> Result<Arc<Principal>, (i32, String)> {
        let user = user.map(|user| user.name.clone());
        let certificate = peer.certificate.as_ref().map(|it| format!("certificate:{}", it.common_name));
        let known = [user, certificate].into_iter().flatten();
        let Some(by) = known.into_iter().find(|it| self.trusted.contains(it)) else {
            let why = "the client may not speak for other principals; ServerSecurity::trust allows it";
            return Err((ContextError::CONFLICTING_EVIDENCE, why.into()));
        };
        let name = ExportedName::read(name).ok().filter(|name| name.mechanism == GSSUP_OID);
        let name = name.and_then(|name| str::from_utf8(name.name).ok());
        match name.filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME) {
            Some(name) => Ok(Arc::new(Principal { name: name.to_owned(), asserted_by: Some(by) })),
            None => Err((ContextError::INVALID_MECHANISM, "the asserted name is none of GSSUP".into())),
        }
    }

    #[cold]
    fn refuse(&self, info: &ServerRequestInfo<'_>, why: &str) -> SystemException {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        // An attack does not fill the log.
        if count <= 16 || count.is_power_of_two() {
            let (caller, operation) = (info.caller(), info.operation());
            log::warn(LOG, format_args!("refused {operation} of {caller}: {why}; {count} such requests"));
        }
        SystemException::from(Kind::NoPermission).detail(format!("{}: {why}", info.operation()))
    }
}

impl ServerRequestInterceptor for ServerSecurity {
    fn name(&self) -> &str {
        "isorb-csi"
    }

    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        if info.caller().is_this_process() {
            return Ok(());
        }
        let unknown = PeerIdentity::default();
        let peer = info.caller().identity().unwrap_or(&unknown);
        let accepted =
            info.request_service_context(SECURITY_ATTRIBUTE).ok().map(|data| self.accept(peer, data));
        let reply = match &accepted {
            None => None,
            Some(Ok(accepted)) => Some(SasMessage::Complete { id: accepted.id, stateful: false, token: &[] }),
            Some(Err(refused)) => Some(SasMessage::Error(ContextError {
                id: refused.id,
                major: refused.major,
                minor: 1,
                token: &[],
            })),
        };
        if let Some(reply) = reply.filter(|_| info.response_expected()) {
            let reply = reply.write().map_err(|_| Kind::NoMemory)?;
            info.add_reply_service_context(SECURITY_ATTRIBUTE, &reply, true)?;
        }
        let principal = match accepted {
            Some(Err(refused)) => return Err(self.refuse(info, &refused.why).into()),
            Some(Ok(accepted)) => accepted.principal,
            None => None,
        };
        match principal {
            Some(principal) => info.set_principal(principal)?,
            None if self.required => {
                let why = "it came without a user name and password (CSIv2), which this server requires";
                return Err(self.refuse(info, why).into());
            }
            None => {}
        }
        Ok(())
    }
}

impl SecureComponent for ServerSecurity {
    fn component(&self, host: &str, port: u16) -> Option<TaggedComponent> {
        let trust = options::ESTABLISH_TRUST_IN_CLIENT;
        let required = if self.required { trust } else { 0 };
        let protection = options::INTEGRITY | options::CONFIDENTIALITY;
        let asserts = !self.trusted.is_empty();
        let mechanism = CompoundSecMech {
            requires: required | protection,
            transport: TransportMech::Tls {
                supports: protection | trust | options::ESTABLISH_TRUST_IN_TARGET,
                requires: protection,
                addresses: vec![(host.to_owned(), port)],
            },
            authentication: AsContext {
                supports: trust,
                requires: required,
                mechanism: GSSUP_OID.into(),
                target: match self.target.as_str() {
                    "" => Vec::new(),
                    name => ExportedName::gssup(name).write(),
                },
            },
            attributes: SasContext {
                supports: if asserts { options::IDENTITY_ASSERTION } else { 0 },
                requires: 0,
                authorities: Vec::new(),
                naming_mechanisms: if asserts { vec![GSSUP_OID.into()] } else { Vec::new() },
                identity_types: match asserts {
                    true => IdentityToken::PRINCIPAL_NAME | IdentityToken::ANONYMOUS,
                    false => 0,
                },
            },
        };
        SecMechList { stateful: false, mechanisms: vec![mechanism] }.to_tagged().ok()
    }
}

impl std::fmt::Debug for ServerSecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSecurity")
            .field("target", &self.target)
            .field("required", &self.required)
            .field("trusted", &self.trusted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn request(password: &[u8]) -> Vec<u8> {
        let token = InitialToken { user: b"ada", password, target: b"" }.write().unwrap();
        let (authorization, identity) = (Vec::new(), IdentityToken::Absent);
        let context = EstablishContext { id: 0, authorization, identity, token: &token };
        SasMessage::Establish(context).write().unwrap()
    }

    /// A client that guesses keeps no thread busy, and holds up neither the user that was
    /// authenticated before nor a client elsewhere.
    #[test]
    fn guesses_are_not_looked_at_for_ever() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let server = ServerSecurity::new(move |_: &str, password: &[u8]| {
            count.fetch_add(1, Ordering::Relaxed);
            password == b"engine"
        });
        let at = |last: u8| PeerIdentity {
            addresses: Some((([10, 0, 0, last], 7).into(), ([10, 0, 0, 9], 7).into())),
            encrypted: true,
            ..PeerIdentity::default()
        };
        let accepts = |peer: &PeerIdentity, password: &[u8]| server.accept(peer, &request(password)).is_ok();
        assert!(accepts(&at(1), b"engine"));
        assert!((0..100).all(|_| !accepts(&at(1), b"wheel")));
        assert_eq!(asked.load(Ordering::Relaxed), 1 + FREE as usize);
        assert!(accepts(&at(1), b"engine"), "it is known already");
        assert!(!accepts(&at(2), b"wheel"));
        assert_eq!(asked.load(Ordering::Relaxed), 2 + FREE as usize);
    }
}
