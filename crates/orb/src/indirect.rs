//! Indirect references: those of persistent objects, which lead to an implementation repository.
#![cfg_attr(
    not(feature = "implementation-repository"),
    allow(dead_code, reason = "no server has a repository then")
)]

use crate::{Object, Orb, Result, SystemException};
use isorb_giop::component::{
    Component, ORB_TYPE_ISORB, TAG_ALTERNATE_IIOP_ADDRESS, TAG_SSL_SEC_TRANS, TaggedComponent,
};
use isorb_giop::{IiopProfile, Ior, Kind};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::time::Duration;

/// The implementation repository of a server.
pub(crate) struct Indirect {
    /// The name of the server there.
    pub server: Box<str>,
    /// The reference of the repository.
    pub repository: Ior,
    /// The addresses of the repository.
    profiles: Vec<IiopProfile>,
    progress: PiMutex<Progress>,
    changed: PiCondvar,
}

/// The life of the server, for the thread that registers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    serves: bool,
    ends: bool,
}

impl Indirect {
    /// The repository behind a reference, for the server of this name.
    ///
    /// # Errors
    /// BAD_PARAM for a reference without an address in TCP's form.
    pub fn new(server: &str, repository: &Ior) -> Result<Indirect> {
        let profiles: Vec<IiopProfile> = repository.iiop_profiles().flatten().collect();
        if profiles.is_empty() {
            return Err(SystemException::from(Kind::BadParam).detail(
                "implementation_repository: the reference has no IIOP profile, which indirect references need",
            ));
        }
        Ok(Indirect {
            server: server.into(),
            repository: repository.clone(),
            profiles,
            progress: PiMutex::default(),
            changed: PiCondvar::new(),
        })
    }

    /// A reference with this key at the repository.
    ///
    /// It has no policies: those are in the reference that the repository forwards to.
    pub fn reference(&self, orb: &Orb, type_id: &str, key: &[u8]) -> Object {
        let own = [Component::OrbType(ORB_TYPE_ISORB), Component::CodeSets(orb.config().code_sets())];
        let own: Vec<TaggedComponent> = own.into_iter().flat_map(|component| component.to_tagged()).collect();
        let of_address = |component: &&TaggedComponent| {
            [TAG_ALTERNATE_IIOP_ADDRESS, TAG_SSL_SEC_TRANS].contains(&component.tag)
        };
        let profiles = self.profiles.iter().filter_map(|profile| {
            let address = profile.components.iter().filter(of_address).cloned();
            let components = own.iter().cloned().chain(address).collect();
            // A URL names GIOP 1.0 unless it says otherwise; the repository speaks all versions.
            let version = orb.config().giop_version();
            IiopProfile { version, key: key.into(), components, ..profile.clone() }.to_tagged().ok()
        });
        Object::new(orb, Ior { type_id: type_id.into(), profiles: profiles.collect() })
    }

    /// The key in a reference at the repository's address, which may be one of this server.
    pub fn key_of_own(&self, ior: &Ior) -> Option<Vec<u8>> {
        let is_here = |profile: &IiopProfile| {
            self.profiles.iter().any(|own| (&own.host, own.port) == (&profile.host, profile.port))
        };
        ior.iiop_profiles().flatten().find(is_here).map(|profile| profile.key)
    }

    /// The server serves persistent objects from now on.
    pub fn serves(&self) {
        let mut progress = self.progress.lock();
        if !progress.serves {
            progress.serves = true;
            self.changed.notify_all(&self.progress);
        }
    }

    /// The server ends. Returns false if that was known.
    pub fn end(&self) -> bool {
        let mut progress = self.progress.lock();
        let before = std::mem::replace(&mut progress.ends, true);
        self.changed.notify_all(&self.progress);
        !before
    }

    /// Whether the server has served.
    pub fn has_served(&self) -> bool {
        self.progress.lock().serves
    }

    /// Waits until the server serves; false if it ends.
    pub fn await_serving(&self) -> bool {
        let mut progress = self.progress.lock();
        while !progress.serves && !progress.ends {
            self.changed.wait_until(&mut progress, Deadline::NONE);
        }
        !progress.ends
    }

    /// Waits for this time; false as soon as the server ends.
    pub fn pause(&self, time: Duration) -> bool {
        let deadline = Deadline::after(time);
        let mut progress = self.progress.lock();
        while !progress.ends && self.changed.wait_until(&mut progress, deadline) {}
        !progress.ends
    }
}
