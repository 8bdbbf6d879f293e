//! The points, their order on every path, and exceptions raised at them.

use crate::ALL_POINTS;
use crate::recorder::*;
use isorb::{Completion, Kind, Policies, Reference, SyncScope, SystemException, minor};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn points_come_in_order_on_every_way() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        assert_eq!(bed.echo.text("hello").unwrap(), "hello");
        assert_eq!(bed.log.take(), ALL_POINTS, "{way:?}");
        assert!(!bed.echo.object().non_existent().unwrap());
        assert_eq!(bed.log.take().len(), 10, "implicit operations are requests too");
    }
}

#[test]
fn exceptions_of_the_servant_are_seen() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        assert_eq!(bed.echo.fail(7).unwrap_err().minor, 7);
        let log = bed.log.take();
        let ends = &log[6..];
        assert_eq!(
            ends,
            ["B.send_exception", "A.send_exception", "B.receive_exception", "A.receive_exception"],
            "{way:?}"
        );
        let seen = bed.log.exceptions();
        assert_eq!(seen.len(), 4);
        for (id, exception) in seen {
            assert_eq!(id, "IDL:omg.org/CORBA/NO_PERMISSION:1.0");
            assert_eq!((exception.kind, exception.minor), (Kind::NoPermission, 7));
        }
    }
}

#[test]
fn user_exceptions_are_seen_by_their_ids() {
    for way in WAYS {
        let bed = Bed::new(way, |_, _| None);
        let denied = bed.deny().unwrap_err();
        assert_eq!(&*denied.detail.unwrap(), "IDL:Test/Denied:1.0");
        let log = bed.log.take();
        assert_eq!(log[6], "B.send_exception");
        for (id, exception) in bed.log.exceptions() {
            assert_eq!(id, "IDL:Test/Denied:1.0");
            assert_eq!((exception.kind, exception.minor), (Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION));
        }
    }
}

/// For each point at which interceptor B raises an exception: the following calls, and the
/// completion status.
#[test]
fn what_is_raised_takes_the_place_of_what_there_was() {
    let starts = &ALL_POINTS[..2];
    let served = &ALL_POINTS[..4];
    let received = &ALL_POINTS[..6];
    let sent = &ALL_POINTS[..7];
    let back = &ALL_POINTS[..9];
    let end = ["B.receive_exception", "A.receive_exception"];
    let cases: [(&'static str, Vec<&str>, Completion); 5] = [
        ("send_request", [starts, &["A.receive_exception"]].concat(), Completion::No),
        ("receive_request_service_contexts", [served, &["A.send_exception"], &end].concat(), Completion::No),
        (
            "receive_request",
            [received, &["B.send_exception", "A.send_exception"], &end].concat(),
            Completion::No,
        ),
        ("send_reply", [sent, &["A.send_exception"], &end].concat(), Completion::Yes),
        ("receive_reply", [back, &["A.receive_exception"]].concat(), Completion::Yes),
    ];
    for way in WAYS {
        for (point, calls, completed) in &cases {
            let point: &'static str = point;
            let bed = Bed::new(way, move |name, at| {
                (name == "B" && at == point).then(|| SystemException::from(Kind::NoResources).minor(9).into())
            });
            let raised = bed.echo.text("x").unwrap_err();
            assert_eq!(
                (raised.kind, raised.minor, raised.completed),
                (Kind::NoResources, 9, *completed),
                "{point}"
            );
            assert_eq!(bed.log.take(), *calls, "{way:?} {point}");
        }
        for point in ["send_exception", "receive_exception"] {
            let bed = Bed::new(way, move |name, at| {
                (name == "B" && at == point).then(|| SystemException::from(Kind::NoResources).minor(9).into())
            });
            // The servant's exception is COMPLETED_NO, and so is the one that replaces it.
            let raised = bed.echo.fail(7).unwrap_err();
            assert_eq!((raised.kind, raised.minor, raised.completed), (Kind::NoResources, 9, Completion::No));
            let others: Vec<_> = bed.log.exceptions().into_iter().map(|(_, seen)| seen.minor).collect();
            assert_eq!(others, if point == "send_exception" { [7, 9, 9, 9] } else { [7, 7, 7, 9] });
        }
    }
}

#[test]
fn oneways_end_in_receive_other_unless_a_reply_comes() {
    for way in WAYS {
        for sync_scope in
            [SyncScope::None, SyncScope::WithTransport, SyncScope::WithServer, SyncScope::WithTarget]
        {
            let bed = Bed::new(way, |_, _| None);
            let policies = Policies { sync_scope: Some(sync_scope), ..Policies::default() };
            bed.echo.with_policies(policies).feed(&[1, 2, 3]).unwrap();
            // On the same connection, so that the oneway is complete.
            bed.echo.ping().unwrap();
            while bed.log.count("A.receive_reply") + bed.log.count("A.receive_other") < 2 {
                std::thread::yield_now();
            }
            assert_eq!(bed.servant.fed.load(Ordering::SeqCst), 3);
            let replies = matches!(sync_scope, SyncScope::WithServer | SyncScope::WithTarget);
            assert_eq!(bed.log.count("B.receive_other"), usize::from(!replies), "{way:?} {sync_scope:?}");
            assert_eq!(bed.log.count("B.send_reply"), 2, "{way:?} {sync_scope:?}");
            let seen = bed.log.scopes();
            assert_eq!(seen[0], (replies, sync_scope));
            assert_eq!(seen[1], (true, SyncScope::WithTarget));
        }
    }
}

#[test]
fn a_oneway_that_waits_for_the_server_gets_refusals() {
    for way in WAYS {
        let bed = Bed::new(way, |name, at| {
            (name == "B" && at == "receive_request_service_contexts").then(|| Kind::NoPermission.into())
        });
        let policies = Policies { sync_scope: Some(SyncScope::WithServer), ..Policies::default() };
        assert_eq!(bed.echo.with_policies(policies).feed(&[1]).unwrap_err().kind, Kind::NoPermission);
        assert_eq!(bed.log.count("A.send_exception"), 1);
        assert_eq!(bed.log.count("A.receive_exception"), 1);
        assert_eq!(bed.servant.fed.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_panic_of_a_server_interceptor_is_unknown_to_the_client_only() {
    for way in WAYS {
        for point in ["receive_request_service_contexts", "receive_request", "send_reply"] {
            let once = AtomicBool::new(false);
            let bed = Bed::new(way, move |name, at| {
                assert!(!(name == "B" && at == point && !once.swap(true, Ordering::SeqCst)), "on purpose");
                None
            });
            assert_eq!(bed.echo.ping().unwrap_err().kind, Kind::Unknown);
            bed.echo.ping().unwrap();
        }
    }
}
