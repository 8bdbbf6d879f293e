//! Type codes of IDL types, and operations by their IDL.

use isorb::{DynamicInterface, DynamicOperation};
use isorb_any::TypeCode;
use isorb_idl::model::{DefId, DefKind, Spec};
use isorb_idl::{Options, compile};
use isorb_ifr::{TypeCodes, wire_names};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles a file.
fn compiled(file: &Path, include: &[PathBuf]) -> Result<Spec, String> {
    let options = Options {
        include_dirs: include.to_vec(),
        embedded: Some(isorb_idl::standard::file),
        ..Options::default()
    };
    let mut outcome = compile(&options, file);
    outcome.spec.take().ok_or_else(|| outcome.render(false))
}

/// Compiles a file and makes the type code of the type of this name.
pub fn load(file: &Path, include: &[PathBuf], name: &str) -> Result<TypeCode, String> {
    let spec = &compiled(file, include)?;
    let id = spec.find(name).ok_or_else(|| format!("{} has no type {name}", file.display()))?;
    TypeCodes::new(spec).of_definition(id)
}
/// An operation of an IDL file.
pub struct Called {
    /// Its scoped name.
    pub name: String,
    pub operation: DynamicOperation,
}

/// Compiles a file and describes one of its operations: by its scoped name, or by its name alone
/// in the interface with this repository id, else in the only interface that has one.
pub fn load_operation(file: &Path, include: &[PathBuf], name: &str, type_id: &str) -> Result<Called, String> {
    let spec = &compiled(file, include)?;
    let (scope, plain) = name.rsplit_once("::").map_or((None, name), |(scope, plain)| (Some(scope), plain));
    let mut found: Vec<(DefId, DefId)> = Vec::new();
    for (id, definition) in spec.definitions() {
        let DefKind::Interface(interface) = &definition.kind else { continue };
        if !interface.defined
            || scope.is_some_and(|scope| spec.scoped_name(id) != scope.trim_start_matches("::"))
        {
            continue;
        }
        let has = |member: &DefId| wire_names(spec, *member).iter().any(|wire| wire == plain);
        found.extend(spec.all_operations(id).into_iter().find(has).map(|member| (id, member)));
    }
    let typed = found.iter().copied().find(|(id, _)| spec[*id].repository_id == type_id);
    let mut members: Vec<DefId> = found.iter().map(|(_, member)| *member).collect();
    members.sort();
    members.dedup();
    let member = match (typed, &members[..]) {
        (Some((_, member)), _) => member,
        (None, [only]) => *only,
        (None, []) => return Err(format!("{} has no operation {name}", file.display())),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|id| spec.scoped_name(*id).to_string()).collect();
            return Err(format!(
                "{} has several operations {name}, and the reference does not say of which interface it is: \
                 call {}",
                file.display(),
                names.join(" or ")
            ));
        }
    };
    let operation = isorb_ifr::operation(&mut TypeCodes::new(spec), member, plain)?;
    Ok(Called { name: spec.scoped_name(member).to_string(), operation })
}

/// An interface of an IDL file.
pub struct Served {
    /// Its scoped name.
    pub name: String,
    id: String,
    bases: Vec<String>,
    /// Its operations and attributes, inherited ones included.
    pub operations: Vec<DynamicOperation>,
}

impl Served {
    /// The interface for a dynamic servant.
    pub fn interface(&self) -> isorb::Result<Arc<DynamicInterface>> {
        let bases: Vec<&str> = self.bases.iter().map(String::as_str).collect();
        Ok(Arc::new(DynamicInterface::new(&self.id, &bases, self.operations.clone())?))
    }
}

/// Compiles a file and describes one of its interfaces: by its scoped name, or the only one that
/// stands in the file itself.
pub fn load_interface(file: &Path, include: &[PathBuf], name: Option<&str>) -> Result<Served, String> {
    let spec = &compiled(file, include)?;
    let is_served = |id: DefId| matches!(&spec[id].kind, DefKind::Interface(it) if it.defined);
    let id = match name {
        Some(name) => spec
            .find(name.trim_start_matches("::"))
            .filter(|id| is_served(*id))
            .ok_or_else(|| format!("{} has no interface {name}", file.display()))?,
        None => {
            let own = |id: &DefId| is_served(*id) && spec[*id].in_main_file;
            let all: Vec<DefId> = spec.definitions().map(|(id, _)| id).filter(own).collect();
            match &all[..] {
                [only] => *only,
                [] => return Err(format!("{} has no interface", file.display())),
                several => {
                    let names: Vec<String> = several.iter().map(|id| spec.scoped_name(*id)).collect();
                    return Err(format!(
                        "{} has several interfaces: write interface = \"{}\" or another of {} at the top of \
                         the script",
                        file.display(),
                        names[0],
                        names.join(", ")
                    ));
                }
            }
        }
    };
    let operations = isorb_ifr::operations(&mut TypeCodes::new(spec), id)?;
    let bases = spec.all_bases(id).into_iter().map(|base| spec[base].repository_id.clone()).collect();
    Ok(Served { name: spec.scoped_name(id), id: spec[id].repository_id.clone(), bases, operations })
}
