//! Calls of set-up that are under way, and memory that no caller waits for.
//!
//! The server sends the memory of an attachment before it answers with the ticket. When the answer
//! is lost, no caller learns the ticket: the attachment is an orphan, and is detached. Memory
//! belongs to a call that was under way when it arrived, so it is an orphan when these have ended.

use super::session::Session;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The calls of set-up of one session, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    newest: u64,
    under_way: BTreeSet<u64>,
}

impl Calls {
    fn begin(&mut self) -> u64 {
        self.newest += 1;
        self.under_way.insert(self.newest);
        self.newest
    }

    fn end(&mut self, call: u64) {
        self.under_way.remove(&call);
    }

    /// The call that began last. What arrives now belongs to it or to one before it.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether this call and all before it have ended.
    pub fn have_ended(&self, call: u64) -> bool {
        self.under_way.first().is_none_or(|first| *first > call)
    }
}

/// A call of set-up, which lasts until this is dropped: until the caller has its memory.
pub(super) struct Call {
    session: Arc<Session>,
    number: u64,
}

impl Call {
    pub fn begin(session: &Arc<Session>) -> Call {
        let number = session.with_calls(Calls::begin);
        Call { session: session.clone(), number }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.session.with_calls(|calls| calls.end(self.number));
        self.session.find_orphans();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idl::{Area, ReaderQoS, WriterQoS};
    use crate::node::{NodeServer, ServerConfig};
    use crate::{Error, Library};
    use isorb_testkit::{RunningOrb, TempFolder, retry, wait_until};

    const QOS: WriterQoS = WriterQoS { period: 0, size: 0, type_hash: 0 };

    #[test]
    fn memory_is_an_orphan_when_the_calls_before_it_have_ended() {
        let mut calls = Calls::default();
        assert!(calls.have_ended(calls.newest()), "no call was made");
        let (first, second) = (calls.begin(), calls.begin());
        let arrived = calls.newest();
        calls.end(second);
        assert!(!calls.have_ended(arrived), "the first may still ask for it");
        let third = calls.begin();
        calls.end(first);
        assert!(calls.have_ended(arrived), "the third began later");
        assert!(!calls.have_ended(third));
    }

    struct Fixture {
        node: RunningOrb,
        app: RunningOrb,
        folder: TempFolder,
    }

    impl Fixture {
        fn new() -> Fixture {
            Fixture { node: RunningOrb::new(), app: RunningOrb::new(), folder: TempFolder::new() }
        }

        fn server(&self) -> NodeServer {
            let config = ServerConfig::new("near", self.folder.file("near"));
            NodeServer::start(&self.node, config, None).unwrap()
        }

        fn library(&self) -> Library {
            Library::connect(&self.app, self.folder.file("near")).unwrap()
        }
    }

    /// The server serves a call, and the library does not get its answer.
    fn lose_the_answer(library: &Library, name: &str) {
        let (server, session) = library.session.server().unwrap();
        server.map_writer(session, name, QOS).unwrap();
        server.attach_reader(session, name, ReaderQoS::on_write()).unwrap();
    }

    #[test]
    fn an_attachment_is_detached_when_the_answer_to_its_call_is_lost() {
        let fixture = Fixture::new();
        let server = fixture.server();
        let (unlucky, other) = (fixture.library(), fixture.library());
        unlucky.create_area(&Area::new("lost", 64, 1)).unwrap();
        lose_the_answer(&unlucky, "lost");
        let mut writer = retry("the writer is free", || other.map_writer("lost", QOS));
        writer.write(b"served").unwrap();
        wait_until("nothing else is attached", || server.counts().2 == 1);
        drop(unlucky);
    }

    #[test]
    fn memory_that_a_caller_may_still_ask_for_is_kept() {
        let fixture = Fixture::new();
        let server = fixture.server();
        let (slow, other) = (fixture.library(), fixture.library());
        slow.create_area(&Area::new("slow", 64, 1)).unwrap();
        let call = Call::begin(&slow.session);
        lose_the_answer(&slow, "slow");
        // Another call begins and ends meanwhile.
        drop(slow.attach_reader("slow", ReaderQoS::on_write()).unwrap());
        assert!(matches!(other.map_writer("slow", QOS), Err(Error::WriterExists(_))));
        drop(call);
        retry("the writer is free", || other.map_writer("slow", QOS).map(drop));
        wait_until("all is detached", || server.counts().2 == 0);
    }
}
