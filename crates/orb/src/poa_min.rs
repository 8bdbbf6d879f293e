//! stand-in
use crate::{IntoServant, Object, Orb, Reference, Result, Servant, SystemException};
use isorb_giop::Kind;
use isorb_rt::sync::PiMutex;
use std::sync::Arc;
#[derive(Clone)]
pub struct Poa(Arc<PoaInner>);
struct PoaInner {
    orb: Orb,
    servants: PiMutex<Vec<Servant>>,
}
pub(crate) enum Refusal {
    Exception(SystemException),
    Forward { to: Object, permanent: bool },
}
pub(crate) struct Entered<'k> {
    pub servant: Servant,
    pub poa: Poa,
    pub object_id: &'k [u8],
}
pub(crate) struct Registry {
    root: std::sync::OnceLock<Poa>,
}
impl Registry {
    pub fn new(_: u32) -> Registry {
        Registry { root: Default::default() }
    }
    pub fn root(&self, orb: &Orb) -> Poa {
        self.root
            .get_or_init(|| Poa(Arc::new(PoaInner { orb: orb.clone(), servants: Default::default() })))
            .clone()
    }
    pub fn enter<'k>(&self, key: &'k [u8], _: &str) -> Result<Entered<'k>, Refusal> {
        let none = || Refusal::Exception(Kind::ObjectNotExist.into());
        let i = key.strip_prefix(b"min").and_then(|k| k.first()).ok_or_else(none)?;
        let poa = self.root.get().ok_or_else(none)?;
        let servant = poa.0.servants.lock().get(*i as usize).cloned().ok_or_else(none)?;
        Ok(Entered { servant, poa: poa.clone(), object_id: key })
    }
    pub fn locate(&self, key: &[u8]) -> Result<(), Refusal> {
        self.enter(key, "").map(drop)
    }
    pub fn shutdown(&self, _: bool) -> Result<()> {
        Ok(())
    }
    pub fn activate_untouched_root(&self) {}
    pub fn serve_main_thread(&self, _stop: impl Fn() -> bool) {}
    pub fn wake_main_thread(&self) {}
}
impl Poa {
    pub fn activate<R: Reference>(&self, s: impl IntoServant<R>) -> Result<R> {
        let s = s.into_servant();
        let mut all = self.0.servants.lock();
        all.push(s.clone());
        Ok(R::from_object(
            self.0.orb.make_reference(s.interface().id, vec![b'm', b'i', b'n', all.len() as u8 - 1]),
        ))
    }
}
