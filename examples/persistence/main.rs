//! References that stay valid over restarts of their server: a POA with the PERSISTENT lifespan,
//! and a servant activator that loads objects when they are called.
#![forbid(unsafe_code)]

use generated::notes::{Note, NoteRef};
use isorb::poa::policies::{IdAssignment, Lifespan, RequestProcessing};
use isorb::poa::{ObjectId, PoaPolicies, Refusal, ServantActivator, ServantManager};
use isorb::prelude::*;
use isorb::{IntoServant, Servant};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("notes");
}

/// A note in a file.
struct FileNote {
    path: PathBuf,
}

impl Note for FileNote {
    fn text<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u str> {
        let text = std::fs::read_to_string(&self.path).map_err(|_| Kind::ObjectNotExist)?;
        cx.str(&text)
    }

    fn set_text(&self, _: Upcall<'_>, value: &str) -> Result<()> {
        std::fs::write(&self.path, value).map_err(|_| Kind::PersistStore.into())
    }
}

/// Makes the servant of a note when the first request for it arrives.
struct Loader {
    folder: PathBuf,
}

impl ServantActivator for Loader {
    fn incarnate(&self, id: &ObjectId, _: &Poa) -> Result<Servant, Refusal> {
        let name = String::from_utf8_lossy(id.as_ref()).into_owned();
        println!("server: {name} is loaded");
        let note: Servant =
            IntoServant::<NoteRef>::into_servant(Arc::new(FileNote { path: self.folder.join(name) }));
        Ok(note)
    }

    fn etherealize(&self, id: &ObjectId, _: &Poa, _: Servant, _: bool, _: bool) {
        println!("server: {} is put away", String::from_utf8_lossy(id.as_ref()));
    }
}

/// Starts a server at `endpoint`. A persistent reference names host, port, POA and object id.
fn server(endpoint: &str, folder: &Path) -> Result<(Orb, Poa), Box<dyn std::error::Error>> {
    let orb =
        Orb::builder().config(Config { endpoints: vec![endpoint.into()], ..Config::default() }).build()?;
    let root = orb.root_poa()?;
    let policies = PoaPolicies::new()
        .lifespan(Lifespan::Persistent)
        .id_assignment(IdAssignment::User)
        .request_processing(RequestProcessing::ServantManager);
    let poa = root.create_poa("notes", Some(&root.manager()), policies)?;
    poa.set_servant_manager(ServantManager::Activator(Arc::new(Loader { folder: folder.into() })))?;
    root.manager().activate()?;
    Ok((orb, poa))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (first, poa) = server("127.0.0.1:0", folder.path())?;
    let port = first.endpoint_addresses()[0].1;
    let reference = poa.create_reference_with_id("shopping", "IDL:Notes/Note:1.0")?.to_string();

    let client = Orb::builder().build()?;
    let note: NoteRef = client.resolve(&reference)?;
    note.set_text("bread, tea")?;
    first.shutdown(true)?;
    drop((poa, first));
    println!("the server is stopped and started again");

    let (second, _poa) = server(&format!("127.0.0.1:{port}"), folder.path())?;
    println!("the same reference says: {}", note.text()?);
    client.shutdown(true)?;
    second.shutdown(true)?;
    Ok(())
}
