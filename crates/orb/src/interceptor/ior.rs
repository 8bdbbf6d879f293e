//! IOR interceptors: components that a service adds to all references of a POA (clause 16.5).

use crate::poa::PoaPolicies;
use crate::{Result, SystemException};
use isorb_giop::component::TaggedComponent;
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{Kind, minor};
use std::sync::Arc;

/// Adds components to the references of this ORB. Called once for each POA, before its first
/// object.
pub trait IorInterceptor: Send + Sync {
    /// As [`ClientRequestInterceptor::name`](super::ClientRequestInterceptor::name).
    fn name(&self) -> &str {
        ""
    }

    /// A POA is being created: the point for adding components.
    ///
    /// # Errors
    /// The standard ignores exceptions of this method; they are logged.
    fn establish_components(&self, info: &mut IorInfo<'_>) -> Result<()>;

    /// All interceptors have added their components.
    ///
    /// # Errors
    /// The POA is then not created: its creator gets OBJ_ADAPTER with minor code OMG|6.
    fn components_established(&self, info: &IorInfo<'_>) -> Result<()> {
        let _ = info;
        Ok(())
    }

    /// The ORB has ended.
    fn destroy(&self) {}
}

/// A component that describes the security of an address over TLS, such as TAG_CSI_SEC_MECH_LIST.
/// References without such an address do not have it.
pub trait SecureComponent: Send + Sync {
    /// The component for the address. Called for each reference that is made.
    fn component(&self, host: &str, port: u16) -> Option<TaggedComponent>;
}

/// A POA that is being created.
#[derive(Debug)]
pub struct IorInfo<'p> {
    name: &'p str,
    policies: &'p PoaPolicies,
    components: Vec<TaggedComponent>,
}

impl IorInfo<'_> {
    /// The POA's name in its parent; the root's is `RootPOA`.
    pub fn adapter_name(&self) -> &str {
        self.name
    }

    /// The POA's policies (`get_effective_policy`).
    pub fn policies(&self) -> &PoaPolicies {
        self.policies
    }

    /// The components so far, without the ORB's own.
    pub fn components(&self) -> &[TaggedComponent] {
        &self.components
    }

    /// Adds a component to all profiles of the POA's references. References of GIOP 1.0 cannot
    /// carry any.
    pub fn add_ior_component(&mut self, component: TaggedComponent) {
        self.components.push(component);
    }

    /// Adds a component to the profiles with this tag, of which there is one: IIOP.
    ///
    /// # Errors
    /// BAD_PARAM (OMG|29) for another tag.
    pub fn add_ior_component_to_profile(&mut self, component: TaggedComponent, profile: u32) -> Result<()> {
        if profile != TAG_INTERNET_IOP {
            return Err(SystemException::from(Kind::BadParam)
                .minor(minor::BAD_PARAM_PROFILE_ID)
                .detail(format!("references have no profile {profile}, only IIOP ({TAG_INTERNET_IOP})")));
        }
        self.add_ior_component(component);
        Ok(())
    }
}

/// What interceptors add to the references of a new POA.
///
/// # Errors
/// OBJ_ADAPTER with minor code OMG|6.
pub(crate) fn components(
    interceptors: &[Arc<dyn IorInterceptor>],
    name: &str,
    policies: &PoaPolicies,
) -> Result<Box<[TaggedComponent]>> {
    let mut info = IorInfo { name, policies, components: Vec::new() };
    for interceptor in interceptors {
        if let Err(exception) = interceptor.establish_components(&mut info) {
            crate::log::warn(
                "isorb::interceptor",
                format_args!(
                    "interceptor {} raised in establish_components for POA {name}, which is ignored: {exception}",
                    interceptor.name()
                ),
            );
        }
    }
    for interceptor in interceptors {
        interceptor.components_established(&info).map_err(|exception| {
            SystemException::from(Kind::ObjAdapter)
                .minor(minor::OBJ_ADAPTER_IOR_INTERCEPTOR)
                .detail(format!("interceptor {} refused POA {name}: {exception}", interceptor.name()))
        })?;
    }
    Ok(info.components.into())
}
