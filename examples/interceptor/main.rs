//! Interceptors in a client and a server: a trace id travels with each request.
#![forbid(unsafe_code)]

use generated::hello::{Greeter, GreeterRef};
use isorb::interceptor::{
    ClientRequestInfo, ClientRequestInterceptor, Raised, ServerRequestInfo, ServerRequestInterceptor,
};
use isorb::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("hello");
}

/// The service context that carries the trace id. Numbers from 0x49530000 on are isorb's.
const TRACE: u32 = 0x4953_0200;

/// The client's side: numbers the requests.
#[derive(Default)]
struct Numbering {
    last: AtomicU32,
}

impl ClientRequestInterceptor for Numbering {
    fn name(&self) -> &str {
        "numbering"
    }

    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        println!("client: {} is request {id}", info.operation());
        info.add_request_service_context(TRACE, &id.to_be_bytes(), false)?;
        Ok(())
    }

    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> Result<()> {
        println!("client: {} has returned", info.operation());
        Ok(())
    }
}

/// The server's side: reads the number, and refuses requests without one.
struct Reading;

impl ServerRequestInterceptor for Reading {
    fn name(&self) -> &str {
        "reading"
    }

    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let octets = info.request_service_context(TRACE).map_err(|_| Kind::NoPermission)?;
        let id = u32::from_be_bytes(*octets.first_chunk().ok_or(Kind::Marshal)?);
        println!("server: request {id} is {}", info.operation());
        Ok(())
    }
}

struct Polite;

impl Greeter for Polite {
    fn greet<'u>(&'u self, cx: Upcall<'u>, name: &'u str) -> Result<&'u str> {
        cx.format(format_args!("Good morning, {name}"))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Orb::builder()
        .register(|info| Ok(info.add_server_request_interceptor(Arc::new(Reading))?))
        .build()?;
    let poa = server.root_poa()?;
    poa.manager().activate()?;
    let greeter: GreeterRef = poa.activate(Arc::new(Polite))?;
    let reference = greeter.to_string();

    let client = Orb::builder()
        .register(|info| Ok(info.add_client_request_interceptor(Arc::new(Numbering::default()))?))
        .build()?;
    let greeter: GreeterRef = client.resolve(&reference)?;
    for name in ["Ada", "Grace"] {
        println!("{}", greeter.greet(name)?);
    }

    // A client without the interceptor has no trace id.
    let stranger = Orb::builder().build()?;
    let greeter: GreeterRef = stranger.resolve(&reference)?;
    if let Err(refusal) = greeter.greet("Eve") {
        println!("without a trace id: {:?}", refusal.kind);
    }
    for orb in [stranger, client, server] {
        orb.shutdown(true)?;
    }
    Ok(())
}
