//! The probes of the proxies of a channel in another process.

use crate::client;
use isorb::interceptor::{Raised, ServerRequestInfo, ServerRequestInterceptor};
use isorb::{Config, Kind, Orb, SystemException};
use isorb_event::remote::{Notice, RemoteChannel};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Filter};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Counts the probes of each object, in the order of their first ones, and refuses those of the
/// first object from some time on.
#[derive(Default)]
struct Probes(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    probed: Vec<(Vec<u8>, usize)>,
    refuses_first: bool,
}

impl Probes {
    fn counts(&self) -> Vec<usize> {
        self.0.lock().unwrap().probed.iter().map(|(_, count)| *count).collect()
    }
}

impl ServerRequestInterceptor for Probes {
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        if info.operation() != "_non_existent" {
            return Ok(());
        }
        let id = info.object_id()?.to_vec();
        let Counts { probed, refuses_first } = &mut *self.0.lock().unwrap();
        let at = probed.iter().position(|(known, _)| *known == id);
        let at = at.unwrap_or_else(|| {
            probed.push((id, 0));
            probed.len() - 1
        });
        probed[at].1 += 1;
        match at == 0 && *refuses_first {
            true => Err(SystemException::from(Kind::NoPermission).into()),
            false => Ok(()),
        }
    }
}

/// The channel answers the probe of one proxy with an exception that says nothing of the others:
/// they are probed all the same, and the channel is not taken for silent.
#[test]
fn a_probe_that_is_refused_does_not_end_the_round() {
    let probes = Arc::new(Probes::default());
    let intercepting = probes.clone();
    let near = Orb::builder()
        .config(Config::default())
        .register(|info| Ok(info.add_server_request_interceptor(intercepting)?))
        .build()
        .unwrap();
    near.root_poa().unwrap().manager().activate().unwrap();
    let channel = Channel::builder().build().unwrap();
    let service = RtecEventService::start(&near, &channel, EventServiceOptions::default()).unwrap();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let noted = notices.clone();
    let orb = client();
    let remote = RemoteChannel::builder()
        .probe(Duration::from_millis(20))
        .notify(move |notice| noted.lock().unwrap().push(notice.clone()))
        .connect(&orb, &service.object().to_string())
        .unwrap();
    let _both = [20, 21].map(|number| remote.consume(Filter::of_type(number), |_| ()).unwrap());
    wait_until("both are probed", || probes.counts().len() == 2);
    probes.0.lock().unwrap().refuses_first = true;
    let before = probes.counts();
    // The rounds that had begun before may count.
    let more = |of: usize| probes.counts()[of] >= before[of] + 4;
    wait_until("the first one is refused", || more(0));
    wait_until("the second one is probed", || more(1));
    assert!(remote.is_connected(), "it answers");
    let refused = |notice: &Notice| matches!(notice, Notice::Refused(why) if why.kind == Kind::NoPermission);
    assert!(matches!(&notices.lock().unwrap()[..], [notice] if refused(notice)), "{notices:?}");
}
