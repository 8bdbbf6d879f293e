//! An interface that is known at run time, and a servant that passes its requests on.

use isorb::{
    Any, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Mode, Object,
    Result, TypeCode, Upcall,
};
use std::sync::Arc;

/// `Tracks::Board` of `shared-state/tracks.idl`, as a program would make it from a description.
pub fn interface() -> Result<Arc<DynamicInterface>, Box<dyn std::error::Error>> {
    let members = [("callsign", TypeCode::STRING), ("bearing", TypeCode::DOUBLE)];
    let track = TypeCode::new_struct("IDL:Tracks/Track:1.0", "Track", &members)?;
    let list = TypeCode::sequence(&track, 0)?;
    let operations = vec![
        DynamicOperation::new("report")?.parameter("seen", Mode::In, list.clone()),
        DynamicOperation::new("latest")?.result(track),
        DynamicOperation::new("all")?.result(list),
    ];
    Ok(Arc::new(DynamicInterface::new("IDL:Tracks/Board:1.0", &[], operations)?))
}

/// What sees the requests that are passed on.
pub trait Observer: Send + Sync + 'static {
    /// A request has been answered.
    fn request(&self, operation: &DynamicOperation, arguments: &[Any], reply: &Result<DynamicReply>);
}

/// Passes each request on to another object, and its reply back.
pub struct Relay<O> {
    /// The object that serves the requests.
    pub target: Object,
    /// What sees them.
    pub observer: O,
}

impl<O: Observer> DynamicServant for Relay<O> {
    fn invoke(
        &self,
        _: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply> {
        let mut request = DynamicRequest::new(&self.target, operation);
        for argument in &arguments {
            request = request.argument(argument.clone())?;
        }
        // The client gets user exceptions and system exceptions as they are.
        let reply = request.invoke();
        self.observer.request(operation, &arguments, &reply);
        reply
    }
}
