//! From a URL or a name to an object.

use super::Orb;
use crate::invoke::call_scope;
use crate::{Object, Operation, Reference, Result, SystemException};
use isorb_cdr::Handle;
use isorb_giop::url::{Address, Corbaloc, ObjectUrl};
use isorb_giop::{Kind, Name, minor};

impl Orb {
    /// The object that a URL names (`IOR:`, `corbaloc:`, `corbaname:`, `file:`) or, without a
    /// colon, the initial reference of that name.
    ///
    /// # Errors
    /// BAD_PARAM with a sentence for what is no URL, INV_OBJREF, and what resolving a name ends in.
    pub fn string_to_object(&self, text: &str) -> Result<Object> {
        let text = text.trim();
        if !text.contains(':') {
            return self.resolve_initial_references(text);
        }
        self.by_url(text, 8)
    }

    /// As [`Orb::string_to_object`], as a typed reference.
    ///
    /// # Errors
    /// As [`Orb::string_to_object`]; BAD_PARAM when the object is not of that interface.
    pub fn resolve<R: Reference>(&self, text: &str) -> Result<R> {
        let object = self.string_to_object(text)?;
        object.narrow()?.ok_or_else(|| {
            SystemException::from(Kind::BadParam).detail(format!("{text} is no {}", R::INTERFACE.id))
        })
    }

    /// An initial reference: registered in this process, configured (`-ORBInitRef`), or below
    /// `-ORBDefaultInitRef`.
    ///
    /// # Errors
    /// INV_OBJREF with a sentence that says how to configure the name.
    pub fn resolve_initial_references(&self, name: &str) -> Result<Object> {
        self.initial(name, 8)
    }

    /// Makes `object` the initial reference `name` of this process.
    pub fn register_initial_reference(&self, name: &str, object: &Object) {
        self.server().references.lock().insert(name.into(), object.clone());
    }

    fn initial(&self, name: &str, depth: u8) -> Result<Object> {
        let known = self.server().references.lock().get(name).cloned();
        if let Some(object) = known {
            return Ok(object);
        }
        let url = match (self.config().init_refs.get(name), &self.config().default_init_ref) {
            (Some(url), _) => url.clone(),
            (None, Some(prefix)) => format!("{prefix}/{name}"),
            (None, None) => {
                return Err(SystemException::from(Kind::InvObjref).detail(format!(
                    "no initial reference {name}: give one with -ORBInitRef {name}=URL or -ORBDefaultInitRef URL"
                )));
            }
        };
        let object = self.by_url(&url, depth)?;
        self.register_initial_reference(name, &object);
        Ok(object)
    }

    fn by_url(&self, text: &str, depth: u8) -> Result<Object> {
        let bad = |sentence: String| {
            SystemException::from(Kind::BadParam).minor(minor::BAD_PARAM_URL).detail(sentence)
        };
        let Some(depth) = depth.checked_sub(1) else {
            return Err(bad(format!("{text}: URLs lead to URLs too often")));
        };
        let url: ObjectUrl = text.parse().map_err(|error| bad(format!("{error}")))?;
        match url {
            ObjectUrl::Ior(ior) if ior.is_nil() => {
                Err(SystemException::from(Kind::InvObjref).detail("a nil reference"))
            }
            ObjectUrl::Ior(ior) => Ok(Object::new(self, ior)),
            ObjectUrl::Corbaloc(corbaloc) => self.by_corbaloc(&corbaloc, depth),
            ObjectUrl::Corbaname { context, name } => {
                let context = self.by_corbaloc(&context, depth)?;
                match name {
                    None => Ok(context),
                    Some(name) => resolve_name(&context, &name),
                }
            }
            ObjectUrl::File(path) => {
                let text = std::fs::read_to_string(&path).map_err(|error| bad(format!("{path}: {error}")))?;
                self.by_url(text.trim(), depth)
            }
        }
    }

    fn by_corbaloc(&self, corbaloc: &Corbaloc, depth: u8) -> Result<Object> {
        if corbaloc.addresses.contains(&Address::Rir) {
            let name = String::from_utf8_lossy(&corbaloc.key);
            let name = if name.is_empty() { "NameService" } else { &name };
            return self.initial(name, depth);
        }
        let ior = corbaloc.to_ior().ok_or_else(|| {
            SystemException::from(Kind::BadParam)
                .minor(minor::BAD_PARAM_URL_ADDRESS)
                .detail("none of the URL's addresses is an iiop: address")
        })?;
        Ok(Object::new(self, ior))
    }
}

static RESOLVE: Operation = Operation { name: "resolve", oneway: false };

/// Calls `resolve` of a naming context for `corbaname:` URLs. Each exception of the service becomes
/// a sentence.
///
/// Written by hand: `isorb-naming`, which has the generated client, is above this crate.
fn resolve_name(context: &Object, name: &Name) -> Result<Object> {
    call_scope(|scope| {
        let components = name.components();
        let reply = context.invoke(&RESOLVE, scope, &|e| {
            e.count(components.len());
            for component in components {
                e.string(&component.id);
                e.string(&component.kind);
            }
        })?;
        let found = reply.raises(Object::decode_handle, |id, _| {
            let why = match id {
                "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0" => "is not bound",
                "IDL:omg.org/CosNaming/NamingContext/CannotProceed:1.0" => {
                    "leads through a context that cannot be used"
                }
                "IDL:omg.org/CosNaming/NamingContext/InvalidName:1.0" => "is not a valid name",
                _ => return Ok(None),
            };
            Ok(Some(SystemException::from(Kind::InvObjref).detail(format!("the name {name} {why}"))))
        })?;
        found.ok_or_else(|| {
            SystemException::from(Kind::InvObjref).detail(format!("the name {name} is bound to nil"))
        })
    })
}
