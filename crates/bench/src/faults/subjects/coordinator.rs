//! Areas of a node that are registered and located.

use isorb::{Orb, Reference};
use isorb_reflective_memory::idl::{Area, CRM_CommRef, Glob_CommRef, Node, glob_comm};

use super::{Client, Connected, text};

const NODE: &str = "campaign";

struct Directory(Glob_CommRef);

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    let directory: Glob_CommRef = orb.resolve(url).map_err(text)?;
    // A node that registers again would take back the areas that it does not name.
    if !directory.list_nodes().map_err(text)?.iter().any(|node| node.name == NODE) {
        let server: CRM_CommRef = directory.object().clone().unchecked_narrow();
        let node = Node { name: NODE.to_owned(), incarnation: 1, server: Some(server) };
        directory.register_node(&node, &Vec::<Area>::new()).map_err(|error| format!("{error:?}"))?;
    }
    Ok(Box::new(Directory(directory)))
}

fn name(number: u32) -> String {
    format!("a{number}")
}

impl Client for Directory {
    fn write(&mut self, number: u32) -> Result<(), String> {
        let area = Area::new(name(number), 64, 1);
        self.0.register_area(NODE, &area).map_err(|error| format!("{error:?}"))
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        match self.0.locate(&name(number)) {
            Ok(node) => Ok(node.name == NODE),
            Err(glob_comm::LocateError::UnknownArea(_)) => Ok(false),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        self.0.unregister_area(NODE, &name(number)).map_err(text)
    }
}
