//! The root object and the life of the server.

use super::exceptions::{AttributesServant, Guarded};
use super::forwards::Mover;
use super::objects::{Diamond, Maker, Total, internal};
use super::values::Echo;
use crate::cases::naming::{component, context_at};
use crate::generated::interop::*;
use crate::options::Options;
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityBand, PriorityModel};
use isorb::rt::{Priority, ThreadpoolLane, ThreadpoolOptions, UpcallMemory};
use isorb::{Kind, Object, Orb, Poa, Reference, Result, Serves, SystemException, Upcall};
use isorb_naming::cos_naming::naming_context::BindNewContextError;
use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::sync::Arc;
use suite::GroupError;

#[derive(Default)]
struct Root {
    groups: HashMap<&'static str, Object>,
    /// The priority that requests of clients without one have.
    priority: Option<i16>,
}

/// What the real-time server runs requests at that come without a priority.
const SERVER_PRIORITY: i16 = 100;

impl Suite for Root {
    fn peer<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok("isorb")
    }
    fn unsupported<'u>(&'u self, _: Upcall<'u>) -> Result<NamesView<'u>> {
        Ok(&[])
    }
    fn group<'u>(&'u self, cx: Upcall<'u>, name: &'u str) -> Result<Option<&'u Object>, GroupError> {
        let priority = cx.priority().map(Priority::get);
        if priority != self.priority {
            let sentence = format!("a request runs at {priority:?}, not {:?}", self.priority);
            return Err(SystemException::from(Kind::Internal).detail(sentence).into());
        }
        match self.groups.get(name) {
            Some(object) => Ok(Some(object)),
            None => Err(NoSuchGroup { name: name.to_owned() }.into()),
        }
    }
    fn shutdown(&self, cx: Upcall<'_>) -> Result<()> {
        cx.orb().shutdown(false)
    }
}

impl Root {
    /// Puts a servant behind the groups of these names.
    fn add<R, S>(&mut self, poa: &Poa, names: &[&'static str], servant: S) -> Result<()>
    where
        R: Serves<S>,
        S: Send + Sync + 'static,
    {
        let reference: R = poa.activate(Arc::new(servant)).map_err(internal)?;
        for name in names {
            self.groups.insert(name, reference.object().clone());
        }
        Ok(())
    }

    fn groups(poa: &Poa) -> Result<Root> {
        let mut root = Root::default();
        root.add::<ScalarsRef, _>(poa, &["scalars"], Echo)?;
        root.add::<FloatingPointRef, _>(poa, &["floats"], Echo)?;
        root.add::<LongDoublesRef, _>(poa, &["long_doubles"], Echo)?;
        root.add::<NarrowStringsRef, _>(poa, &["strings", "utf8_strings"], Echo)?;
        root.add::<WidesRef, _>(poa, &["wides"], Echo)?;
        root.add::<BoundedWidesRef, _>(poa, &["bounded_wides"], Echo)?;
        root.add::<WideCharsRef, _>(poa, &["wide_chars"], Echo)?;
        root.add::<EnumsRef, _>(poa, &["enums"], Echo)?;
        root.add::<StructsRef, _>(poa, &["structs"], Echo)?;
        root.add::<UnionsRef, _>(poa, &["unions", "union_labels"], Echo)?;
        root.add::<SequencesRef, _>(poa, &["sequences"], Echo)?;
        root.add::<ArraysRef, _>(poa, &["arrays"], Echo)?;
        root.add::<FixedsRef, _>(poa, &["fixeds", "fixed_zeros"], Echo)?;
        root.add::<RecursiveRef, _>(poa, &["recursive"], Echo)?;
        root.add::<TypedefsRef, _>(poa, &["typedefs"], Echo)?;
        root.add::<AnyValuesRef, _>(poa, &["anys"], Echo)?;
        root.add::<TypeCodesRef, _>(poa, &["typecodes"], Echo)?;
        root.add::<ReferencesRef, _>(poa, &["references"], Echo)?;
        root.add::<FactoriesRef, _>(poa, &["factories"], Maker(poa.clone()))?;
        root.add::<InheritanceRef, _>(poa, &["inheritance"], Diamond::new(poa)?)?;
        root.add::<UserExceptionsRef, _>(poa, &["user_exceptions"], Echo)?;
        root.add::<SystemExceptionsRef, _>(poa, &["system_exceptions"], Echo)?;
        root.add::<AttributesRef, _>(poa, &["attributes"], AttributesServant::default())?;
        root.add::<AttributeExceptionsRef, _>(poa, &["attribute_exceptions"], Guarded::default())?;
        root.add::<OnewaysRef, _>(poa, &["oneways"], Total::default())?;
        root.add::<CallbacksRef, _>(poa, &["callbacks", "bidirectional"], Echo)?;
        root.add::<ForwardsRef, _>(poa, &["forwards"], Mover::new(poa)?)?;
        root.add::<SlowRef, _>(poa, &["timeouts"], Echo)?;
        root.add::<LargeRef, _>(poa, &["large", "parallel"], Echo)?;
        root.add::<ContextsRef, _>(poa, &["contexts"], Echo)?;
        Ok(root)
    }
}

/// Serves until standard input ends or a client shuts the suite down.
///
/// # Errors
/// Why it could not start.
pub fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let orb = options.orb()?;
    let poa = if options.rt { real_time(&orb)? } else { orb.root_poa()? };
    let priority = options.rt.then_some(SERVER_PRIORITY);
    let suite: SuiteRef = poa.activate(Arc::new(Root { priority, ..Root::groups(&poa)? }))?;
    let suite = match options.dynamic {
        true => crate::dynamic::relay_of(&orb, suite.object().clone())?,
        false => suite.object().clone(),
    };
    orb.register_corbaloc_key("Interop", &suite);
    poa.manager().activate()?;
    if !options.ns.is_empty() {
        bind(&orb, options, &suite)?;
    }
    std::fs::write(&options.ior_file, format!("{suite}\n"))?;
    println!("READY");
    std::io::stdout().flush()?;
    let watched = orb.clone();
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut octets = [0; 256];
        while stdin.read(&mut octets).is_ok_and(|n| n > 0) {}
        // The process ends either way.
        let _ = watched.shutdown(false);
    });
    orb.run();
    Ok(())
}

/// A POA of a thread pool with two lanes; its clients propagate their priority and have a band for
/// each lane.
fn real_time(orb: &Orb) -> Result<Poa, Box<dyn Error>> {
    let lanes = [ThreadpoolLane::new(SERVER_PRIORITY, 4), ThreadpoolLane::new(10_000, 1)];
    // What case large sends fits no region.
    let options = ThreadpoolOptions { memory: Some(UpcallMemory::Heap), ..ThreadpoolOptions::default() };
    let pool = orb.rt().create_threadpool_with_lanes(&lanes, &options)?;
    let bands = [PriorityBand { low: 0, high: 9_999 }, PriorityBand { low: 10_000, high: 32_767 }];
    let policies = PoaPolicies::new()
        .threadpool(pool)
        .priority_model(PriorityModel::ClientPropagated, SERVER_PRIORITY)
        .priority_bands(bands);
    let root = orb.root_poa()?;
    Ok(root.create_poa("real time", Some(&root.manager()), policies)?)
}

/// Binds in naming, making the contexts on the way.
fn bind(orb: &Orb, options: &Options, object: &Object) -> Result<(), Box<dyn Error>> {
    let root = context_at(orb, &options.ns)?;
    let path: Vec<_> = options.name.split('/').map(|id| component(id, "")).collect();
    for depth in 1..path.len() {
        match root.bind_new_context(&path[..depth].to_vec()) {
            Ok(_) | Err(BindNewContextError::AlreadyBound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(root.rebind(&path, Some(object))?)
}
