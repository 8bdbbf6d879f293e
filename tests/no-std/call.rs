//! A client without input and output of its own: three calls to a naming service over a pair of
//! functions that move octets, which may be a serial line, a socket or a mailbox.

use alloc::vec::Vec;
use isorb_cdr::{Decoder, Encoder, Text};
use isorb_giop::message::{self, Reply, ReplyStatus, Response};
use isorb_giop::url::ObjectUrl;
use isorb_giop::{Completion, Header, Kind, MessageKind, SystemException};
use isorb_scope::Region;

unsafe extern "C" {
    /// Reads `most` octets or fewer: their number, 0 at the end, or less after an error.
    fn isorb_pipe_read(octets: *mut u8, most: usize) -> isize;
    /// Writes `count` octets or fewer: their number, or 0 or less after an error.
    fn isorb_pipe_write(octets: *const u8, count: usize) -> isize;
}

/// What went wrong; the program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Fault {
    Url = 11,
    Pipe = 12,
    Request = 13,
    Header = 14,
    Length = 15,
    Reply = 16,
    OtherRequest = 17,
    Result = 18,
    UserException = 19,
    SystemException = 20,
}

/// The longest reply that is taken.
const MOST: usize = 4096;

fn write(mut octets: &[u8]) -> Result<(), Fault> {
    while !octets.is_empty() {
        // SAFETY: the octets are borrowed for the call.
        let written = unsafe { isorb_pipe_write(octets.as_ptr(), octets.len()) };
        let written = usize::try_from(written).ok().filter(|written| *written > 0);
        octets = written.and_then(|written| octets.get(written..)).ok_or(Fault::Pipe)?;
    }
    Ok(())
}

fn read(mut octets: &mut [u8]) -> Result<(), Fault> {
    while !octets.is_empty() {
        // SAFETY: the octets are borrowed for the call, and for it alone.
        let read = unsafe { isorb_pipe_read(octets.as_mut_ptr(), octets.len()) };
        let read = usize::try_from(read).ok().filter(|read| *read > 0);
        octets = read.and_then(|read| octets.get_mut(read..)).ok_or(Fault::Pipe)?;
    }
    Ok(())
}

struct Client {
    key: Vec<u8>,
    calls: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
    region: Region,
}

impl Client {
    fn call(
        &mut self,
        operation: &str,
        arguments: impl FnOnce(&mut Encoder<'_>),
        result: impl FnOnce(ReplyStatus, &mut Decoder<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.calls += 1;
        let mut e = Encoder::new(core::mem::take(&mut self.request), Text::DEFAULT);
        message::write_request(&mut e, self.calls, Response::Target, &self.key, operation, &[]);
        let body = message::begin_body(&mut e);
        arguments(&mut e);
        message::end_body(&mut e, body);
        let mut written = e.finish().map_err(|_| Fault::Request)?;
        message::finish_header(&mut written).map_err(|_| Fault::Request)?;
        written.pieces().try_for_each(write)?;
        self.request = written.into_buffer();

        self.reply.resize(Header::LEN, 0);
        read(&mut self.reply)?;
        let header = self.reply.first_chunk().ok_or(Fault::Header)?;
        let header = Header::parse(header).map_err(|_| Fault::Header)?;
        if header.kind != MessageKind::Reply || header.more_fragments {
            return Err(Fault::Header);
        }
        if header.total() > MOST {
            return Err(Fault::Length);
        }
        self.reply.resize(header.total(), 0);
        read(self.reply.get_mut(Header::LEN..).ok_or(Fault::Length)?)?;
        let scope = self.region.enter();
        let (reply, mut d) = Reply::open(&mut self.reply, &header, &scope).map_err(|_| Fault::Reply)?;
        if reply.id != self.calls {
            return Err(Fault::OtherRequest);
        }
        result(reply.status, &mut d)
    }
}

/// `CosNaming::Name`.
fn name(e: &mut Encoder<'_>, steps: &[(&str, &str)]) {
    e.count(steps.len());
    for (id, kind) in steps {
        e.string(id);
        e.string(kind);
    }
}

/// A result, a user exception and a system exception of the naming service at this URL.
pub fn calls(url: &str) -> Result<(), Fault> {
    let Ok(ObjectUrl::Corbaloc(place)) = url.parse::<ObjectUrl>() else { return Err(Fault::Url) };
    let (request, reply) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
    let mut client = Client { key: place.key.to_vec(), calls: 0, request, reply, region: Region::new(1024) };

    client.call(
        "to_string",
        |e| name(e, &[("lab", ""), ("t1", "probe")]),
        |status, d| match (status, d.string()) {
            (ReplyStatus::NoException, Ok("lab/t1.probe")) => Ok(()),
            _ => Err(Fault::Result),
        },
    )?;
    client.call(
        "resolve",
        |e| name(e, &[("absent", "")]),
        |status, d| {
            let not_found = "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0";
            // Its members: the reason, here a missing node, and the rest of the name.
            let read = (d.string(), d.get::<u32>(), d.count(10), d.string(), d.string());
            match (status, read) {
                (ReplyStatus::UserException, (Ok(id), Ok(0), Ok(1), Ok("absent"), Ok("")))
                    if id == not_found =>
                {
                    Ok(())
                }
                _ => Err(Fault::UserException),
            }
        },
    )?;
    client.call(
        "no_such_operation",
        |_| {},
        |status, d| match (status, SystemException::decode(d)) {
            (ReplyStatus::SystemException, Ok(raised))
                if (raised.kind, raised.completed) == (Kind::BadOperation, Completion::No) =>
            {
                Ok(())
            }
            _ => Err(Fault::SystemException),
        },
    )
}
