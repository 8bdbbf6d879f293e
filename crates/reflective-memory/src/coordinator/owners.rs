//! Which client registered a node or an area, where each client has a limit of them.

use isorb::{Result, Upcall};
use isorb_access::{PeerLimit, Share, take_share};
use std::collections::HashMap;

/// What one client may register. A client is one with the same certificate, else of the same user
/// of this host, else at the same address. Registrations count since the coordinator started, until
/// they are removed; those of an earlier process count for no client. 0 for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// Nodes that join.
    pub nodes: usize,
    /// Areas, of all of its nodes together.
    pub areas: usize,
}

/// The shares of clients.
pub(super) struct Owners {
    node_limit: PeerLimit,
    area_limit: PeerLimit,
    nodes: HashMap<String, Share>,
    /// With the node that holds each.
    areas: HashMap<String, (String, Share)>,
}

/// What a registration adds, before it is stored.
#[derive(Default)]
pub(super) struct Added {
    node: Option<Share>,
    areas: Vec<(String, Share)>,
}

impl Owners {
    pub fn new(limits: PeerLimits) -> Owners {
        Owners {
            node_limit: PeerLimit::new("nodes", "--max-peer-nodes", limits.nodes),
            area_limit: PeerLimit::new("areas", "--max-peer-areas", limits.areas),
            nodes: HashMap::new(),
            areas: HashMap::new(),
        }
    }

    /// Counts a node and its areas that are not registered yet.
    ///
    /// # Errors
    /// IMP_LIMIT: the caller has as many as it may; nothing is counted.
    pub fn add<'n>(
        &self,
        cx: Upcall<'_>,
        is_new_node: bool,
        areas: impl IntoIterator<Item = &'n str>,
    ) -> Result<Added> {
        let node = is_new_node.then(|| take_share(cx, &self.node_limit)).transpose()?;
        let areas = areas.into_iter().map(|name| Ok((name.into(), take_share(cx, &self.area_limit)?)));
        Ok(Added { node, areas: areas.collect::<Result<_>>()? })
    }

    /// Keeps what was counted: it is stored now. Without limits there is nothing to keep.
    pub fn keep(&mut self, node: &str, added: Added) {
        if let Some(share) = added.node.filter(|_| !self.node_limit.is_none()) {
            self.nodes.insert(node.into(), share);
        }
        if !self.area_limit.is_none() {
            let areas = added.areas.into_iter();
            self.areas.extend(areas.map(|(name, share)| (name, (node.to_owned(), share))));
        }
    }

    /// A node is gone, with its areas.
    pub fn node_removed(&mut self, node: &str) {
        self.nodes.remove(node);
        self.areas.retain(|_, (of, _)| of != node);
    }

    /// An area is gone.
    pub fn area_removed(&mut self, area: &str) {
        self.areas.remove(area);
    }
}
