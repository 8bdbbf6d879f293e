//! The answer to `_get_interface`: the definition in the interface repository that the program
//! names.

use crate::dispatch::InterfaceDefinitions;

impl InterfaceDefinitions {
    /// Asks the repository that is the ORB's initial reference.
    #[cfg(feature = "interface-repository")]
    pub(super) fn of_orb() -> InterfaceDefinitions {
        InterfaceDefinitions::new(super::interface_lookup::find_interface)
    }

    /// Has none: a server that makes no calls needs no code of a client.
    #[cfg(not(feature = "interface-repository"))]
    pub(super) fn of_orb() -> InterfaceDefinitions {
        use crate::SystemException;
        use isorb_giop::{Kind, minor};
        InterfaceDefinitions::new(|_, _| {
            let why = "the server was built without the feature interface-repository";
            Err(SystemException::from(Kind::IntfRepos).minor(minor::INTF_REPOS_UNAVAILABLE).detail(why))
        })
    }
}
