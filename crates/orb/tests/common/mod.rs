//! An interface as the IDL compiler would generate it, written by hand, so that the core is tested
//! without the compiler.
#![allow(dead_code, missing_docs)]

pub mod fake;
pub mod raw;
pub mod rt;

use isorb::generated::*;
use isorb::{Concurrency, Config, Orb};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The default methods return their arguments and do nothing.
pub trait Echo: Send + Sync + 'static {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
    fn text<'u>(&'u self, _: Upcall<'u>, s: &'u str) -> Result<&'u str> {
        Ok(s)
    }
    fn octets<'u>(&'u self, _: Upcall<'u>, o: &'u [u8]) -> Result<&'u [u8]> {
        Ok(o)
    }
    fn numbers<'u>(&'u self, _: Upcall<'u>, n: &'u [f64]) -> Result<&'u [f64]> {
        Ok(n)
    }
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        Ok(ms)
    }
    fn feed(&self, _: Upcall<'_>, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn fail(&self, _: Upcall<'_>, _: u32) -> Result<()> {
        Ok(())
    }
    fn call_back<'u>(&'u self, _: Upcall<'u>, _: Option<&'u EchoRef>) -> Result<&'u str> {
        Ok("")
    }
    /// Its octets are read where the client lent them.
    fn frame<'u>(&'u self, cx: Upcall<'u>, tag: &'u str, o: Lent<'u, u8>, after: u32) -> Result<&'u [u8]> {
        let _ = (cx, tag, o, after);
        Ok(&[])
    }
}

static NAMES: &[&str] = &["ping", "text", "octets", "numbers", "sleep", "feed", "fail", "call_back", "frame"];
const fn slots() -> (u32, [u16; 16]) {
    let mut seed = 0;
    loop {
        let mut slots = [0xffff; 16];
        let mut i = 0;
        while i < NAMES.len() {
            let at = operation_hash_of(seed, NAMES[i].as_bytes()) as usize & 15;
            if slots[at] != 0xffff {
                break;
            }
            slots[at] = i as u16;
            i += 1;
        }
        if i == NAMES.len() {
            return (seed, slots);
        }
        seed += 1;
    }
}
use isorb::generated::operation_hash as operation_hash_of;
static SLOTS: (u32, [u16; 16]) = slots();
static INTERFACE: Interface = Interface {
    id: "IDL:Test/Echo:1.0",
    bases: &[],
    operations: Operations::new(NAMES, slots().0, &SLOTS.1).reading_in_place(&[8]),
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EchoRef(Object);
isorb::reference!(EchoRef, INTERFACE, []);

impl<S: Echo> Serves<S> for EchoRef {
    fn dispatch<'u>(
        s: &'u S,
        operation: u16,
        cx: Upcall<'u>,
        d: &mut Decoder<'u>,
        e: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        match operation {
            0 => s.ping(cx)?,
            1 => s.text(cx, d.string()?)?.encode(e),
            2 => s.octets(cx, d.plain_seq()?)?.encode(e),
            3 => s.numbers(cx, d.plain_seq()?)?.encode(e),
            4 => s.sleep(cx, d.get()?)?.encode(e),
            5 => s.feed(cx, d.plain_seq()?)?,
            6 => s.fail(cx, d.get()?)?,
            7 => s.call_back(cx, Decode::decode(d)?)?.encode(e),
            8 => s.frame(cx, d.string()?, d.read()?, d.get()?)?.encode(e),
            _ => return Err(bad_operation()),
        }
        Ok(Outcome::Results)
    }
}

macro_rules! operation {
    ($name:ident $text:literal $oneway:literal) => {
        static $name: Operation = Operation { name: $text, oneway: $oneway };
    };
}
operation!(PING "ping" false);
operation!(TEXT "text" false);
operation!(OCTETS "octets" false);
operation!(NUMBERS "numbers" false);
operation!(SLEEP "sleep" false);
operation!(FEED "feed" true);
operation!(FAIL "fail" false);
operation!(CALL_BACK "call_back" false);
operation!(FRAME "frame" false);

impl EchoRef {
    pub fn ping(&self) -> Result<()> {
        call_scope(|scope| self.0.invoke(&PING, scope, &|_| ())?.results(|_| Ok(())))
    }
    pub fn text_in<'s>(&self, scope: &'s Scope<'s>, s: &str) -> Result<&'s str> {
        self.0.invoke(&TEXT, scope, &|e| e.string(s))?.results(|d| d.string())
    }
    pub fn text(&self, s: &str) -> Result<String> {
        call_scope(|scope| Ok(self.text_in(scope, s)?.to_owned()))
    }
    pub fn octets_in<'s>(&self, scope: &'s Scope<'s>, o: &[u8]) -> Result<&'s [u8]> {
        self.0.invoke(&OCTETS, scope, &|e| o.encode(e))?.results(|d| d.plain_seq())
    }
    pub fn numbers_in<'s>(&self, scope: &'s Scope<'s>, n: &[f64]) -> Result<&'s [f64]> {
        self.0.invoke(&NUMBERS, scope, &|e| n.encode(e))?.results(|d| d.plain_seq())
    }
    pub fn sleep(&self, ms: u32) -> Result<u32> {
        call_scope(|scope| self.0.invoke(&SLEEP, scope, &|e| e.put(ms))?.results(|d| d.get()))
    }
    pub fn feed(&self, o: &[u8]) -> Result<()> {
        self.0.send(&FEED, &|e| o.encode(e))
    }
    pub fn fail(&self, how: u32) -> Result<()> {
        call_scope(|scope| self.0.invoke(&FAIL, scope, &|e| e.put(how))?.results(|_| Ok(())))
    }
    pub fn call_back(&self, to: Option<&EchoRef>) -> Result<String> {
        call_scope(|scope| {
            let reply = self.0.invoke(&CALL_BACK, scope, &|e| to.encode(e))?;
            Ok(reply.results(|d| d.string())?.to_owned())
        })
    }
    pub fn frame_in<'s>(
        &self,
        scope: &'s Scope<'s>,
        tag: &str,
        o: &[u8],
        after: u32,
    ) -> Result<Lent<'s, u8>> {
        let reply = self.0.invoke_in_place(&FRAME, scope, &|e| {
            e.string(tag);
            o.encode(e);
            e.put(after);
        });
        reply?.results(|d| d.read())
    }
    pub fn with_policies(&self, policies: isorb::Policies) -> EchoRef {
        EchoRef(self.0.with_policies(policies))
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("a destructor that panics");
    }
}

#[derive(Default)]
pub struct Parrot {
    pub fed: AtomicU64,
    /// Counts each start and each end of a sleep.
    pub slept: AtomicU64,
}

impl Echo for Parrot {
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        self.slept.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(ms.into()));
        self.slept.fetch_add(1, Ordering::SeqCst);
        Ok(ms)
    }
    fn feed(&self, _: Upcall<'_>, o: &[u8]) -> Result<()> {
        self.fed.fetch_add(o.len() as u64, Ordering::SeqCst);
        Ok(())
    }
    fn fail(&self, cx: Upcall<'_>, how: u32) -> Result<()> {
        match how {
            0 => panic!("a servant that panics"),
            97 => cx.keep(PanicsInDrop).map(drop),
            98 => cx.orb().shutdown(false),
            99 => cx.orb().scope(|_| panic!("a servant that panics in a scope of its own")),
            _ => Err(SystemException::from(isorb::Kind::NoPermission).minor(how)),
        }
    }
    fn call_back<'u>(&'u self, cx: Upcall<'u>, to: Option<&'u EchoRef>) -> Result<&'u str> {
        match to {
            Some(to) => to.text_in(cx.scope(), "from the servant"),
            None => Ok("nil"),
        }
    }
}

/// A serving ORB, its object as a second ORB sees it, the servant.
pub fn pair(concurrency: Concurrency) -> (Orb, Orb, EchoRef, Arc<Parrot>) {
    pair_with(Config { concurrency, ..Config::default() }, Config::default())
}

pub fn pair_with(server: Config, client: Config) -> (Orb, Orb, EchoRef, Arc<Parrot>) {
    let (server, client) = (Orb::with_config(server).unwrap(), Orb::with_config(client).unwrap());
    let servant = Arc::new(Parrot::default());
    let root = server.root_poa().unwrap();
    let near: EchoRef = root.activate(servant.clone()).unwrap();
    let far = client.resolve(&near.object().to_string()).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    (server, client, far, servant)
}
