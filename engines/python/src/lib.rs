//! The native part of the Python package `isorb`: IDL files, calls, servants, events, reflective
//! memory and schedules, typed at run time.
//!
//! It is *not* a code generator: an IDL file is compiled when the program loads it. Classes are
//! made by the Python part (`isorb/_classes.py`); values go between Python and CDR here, by the
//! type in IDL, without an intermediate form.
//!
//! ```text
//!  class, method (isorb/_classes.py) ─► call ─► encode ─► isorb::Object::invoke (without the GIL)
//!                                               decode ◄─ reply
//!  instance ◄─ servant ◄─ isorb::DynamicServant (a thread of the ORB takes the GIL)
//! ```
#![allow(missing_docs, reason = "the public items are those of Python, described in isorb/__init__.pyi")]

mod any;
mod call;
mod decode;
mod encode;
mod error;
mod events;
mod idl;
mod memory;
mod object;
mod orb;
mod schedule;
mod servant;
mod type_codes;
mod types;
mod wrong;

use pyo3::prelude::*;

#[pymodule]
fn _isorb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<any::PyAnyValue>()?;
    module.add_class::<any::PyTypeCode>()?;
    module.add_class::<call::PyOperation>()?;
    module.add_class::<call::PyPending>()?;
    module.add_class::<events::Consumer>()?;
    module.add_class::<events::EventChannel>()?;
    module.add_class::<events::recordings::Events>()?;
    module.add_class::<events::event::PyEvent>()?;
    module.add_class::<events::recordings::Recording>()?;
    module.add_class::<events::Supplier>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<memory::PyLease>()?;
    module.add_class::<memory::Reader>()?;
    module.add_class::<memory::Writer>()?;
    module.add_class::<object::Object>()?;
    module.add_class::<schedule::PySchedule>()?;
    module.add_class::<schedule::PyTask>()?;
    module.add_class::<orb::PyOrb>()?;
    module.add_class::<types::TypeHandle>()?;
    module.add_function(wrap_pyfunction!(events::event::decode, module)?)?;
    module.add_function(wrap_pyfunction!(events::event::encode, module)?)?;
    module.add_function(wrap_pyfunction!(idl::load, module)?)?;
    module.add_function(wrap_pyfunction!(idl::load_text, module)?)?;
    module.add_function(wrap_pyfunction!(orb::shutdown_all, module)?)?;
    let names: Vec<&str> = isorb::Kind::ALL.iter().map(|kind| kind.name()).collect();
    module.add("SYSTEM_EXCEPTIONS", names)
}
