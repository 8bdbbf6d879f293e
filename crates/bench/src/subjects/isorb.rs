//! isorb itself, in both forms of concurrency, with what its IDL compiler makes of `idl/bench.idl`.
//!
//! The client uses the `_in` forms, which place results in a scope: the form for a request path.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::isorb::poa::PoaPolicies;
use ::isorb::rt::policy::PriorityModel;
use ::isorb::{Lent, Loan, Orb, Reference, Result, SystemException, Upcall};

use self::generated::bench::{
    Lender, LenderRef, Message, MessageView, Reading, ReadingView, Sample, Target, TargetRef,
};
use crate::cases::{Case, Kind, READINGS, SAMPLE, UNIT};
use crate::load::work;
use crate::protocol::{Client, exit_at_end_of_input, obey, ready};

pub(crate) mod generated {
    ::isorb::include_idl!("bench");
}

/// Serves one object until standard input ends; `arguments` are those of the ORB. `propagated`:
/// requests run at the priority that their client sends.
pub fn serve(arguments: &[String], propagated: bool) -> io::Result<()> {
    serve_by(&Orb::init(arguments.iter().cloned()).map_err(failed)?, propagated)
}

/// As [`serve`], by an ORB that is there.
pub fn serve_by(orb: &Orb, propagated: bool) -> io::Result<()> {
    let servant = Arc::new(Echo::new(orb));
    let root = orb.root_poa().map_err(failed)?;
    let poa = if propagated {
        let policies = PoaPolicies::new().priority_model(PriorityModel::ClientPropagated, 0);
        root.create_poa("propagated", Some(&root.manager()), policies).map_err(io::Error::other)?
    } else {
        root
    };
    let target: TargetRef = poa.activate(servant).map_err(|error| failed(error.into()))?;
    exit_at_end_of_input();
    ready(target.object())?;
    orb.run();
    Ok(())
}

/// Calls the object that the last of `arguments` refers to, as the harness orders; the others are
/// those of the ORB. `propagated`: with a priority.
pub fn call(arguments: &[String], propagated: bool) -> io::Result<()> {
    let (address, arguments) = arguments.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let orb = Orb::init(arguments.iter().cloned()).map_err(failed)?;
    if propagated {
        orb.rt_current().set_the_priority(PRIORITY).map_err(failed)?;
    }
    call_by(orb, address)
}

/// As [`serve`], with an object that answers loans with loans.
pub fn serve_in_place(arguments: &[String]) -> io::Result<()> {
    let orb = Orb::init(arguments.iter().cloned()).map_err(failed)?;
    let root = orb.root_poa().map_err(failed)?;
    let lender: LenderRef = root.activate(Arc::new(Echo::new(&orb))).map_err(|error| failed(error.into()))?;
    exit_at_end_of_input();
    ready(lender.object())?;
    orb.run();
    Ok(())
}

/// As [`call_with_loans`], with octets that neither side writes or reads, lent both ways.
pub fn call_in_place(arguments: &[String]) -> io::Result<()> {
    let (address, arguments) = arguments.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let orb = Orb::init(arguments.iter().cloned()).map_err(failed)?;
    let lender: LenderRef = orb.resolve(address).map_err(failed)?;
    lender.ping().map_err(failed)?;
    let target = TargetRef::from(lender.clone());
    obey(&mut Caller { lends: true, lender: Some(lender), ..Caller::new(orb, target) })
}

/// As [`call`], with loans as sequences of octets.
pub fn call_with_loans(arguments: &[String]) -> io::Result<()> {
    let (address, arguments) = arguments.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let orb = Orb::init(arguments.iter().cloned()).map_err(failed)?;
    let target: TargetRef = orb.resolve(address).map_err(failed)?;
    target.ping().map_err(failed)?;
    obey(&mut Caller { lends: true, ..Caller::new(orb, target) })
}

/// As [`call`], by an ORB that is there.
pub fn call_by(orb: Orb, address: &str) -> io::Result<()> {
    let target: TargetRef = orb.resolve(address).map_err(failed)?;
    target.ping().map_err(failed)?;
    obey(&mut Caller::new(orb, target))
}

/// Of calls that have one.
const PRIORITY: i16 = 100;

pub(crate) fn failed(exception: SystemException) -> io::Error {
    io::Error::other(exception.to_string())
}

/// What the servant writes at each `ping`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Logging {
    #[default]
    Nothing,
    /// A log record.
    Record,
    /// A line on standard error, by the thread of the upcall.
    Direct,
}

/// The servant.
pub(crate) struct Echo {
    orb: Orb,
    fed: AtomicU64,
    logging: Logging,
}

impl Echo {
    pub(crate) fn new(orb: &Orb) -> Echo {
        Echo { orb: orb.clone(), fed: AtomicU64::new(0), logging: Logging::Nothing }
    }

    /// Writes something at each `ping`.
    pub(crate) fn logging(self, logging: Logging) -> Echo {
        Echo { logging, ..self }
    }
}

impl Target for Echo {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        match self.logging {
            Logging::Nothing => {}
            Logging::Record => isorb_rt::log::warn("isorb::bench", format_args!("a request was served")),
            // A failure is what the experiment is about.
            Logging::Direct => drop(writeln!(io::stderr(), "WARN isorb::bench: a request was served")),
        }
        Ok(())
    }

    fn echo<'u>(&'u self, _: Upcall<'u>, o: &'u [u8]) -> Result<&'u [u8]> {
        Ok(o)
    }

    fn text<'u>(&'u self, _: Upcall<'u>, s: &'u str) -> Result<&'u str> {
        Ok(s)
    }

    fn structs<'u>(&'u self, _: Upcall<'u>, r: &'u [ReadingView<'u>]) -> Result<&'u [ReadingView<'u>]> {
        Ok(r)
    }

    fn plain<'u>(&'u self, _: Upcall<'u>, s: &'u [Sample]) -> Result<&'u [Sample]> {
        Ok(s)
    }

    fn feed(&self, _: Upcall<'_>, _: &[u8]) -> Result<()> {
        self.fed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn fed(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(self.fed.load(Ordering::Relaxed))
    }

    fn method<'u>(&'u self, _: Upcall<'u>, m: &mut MessageView<'u>) -> Result<()> {
        work(m.work);
        Ok(())
    }

    fn post(&self, _: Upcall<'_>, m: MessageView<'_>) -> Result<()> {
        work(m.work);
        self.fed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn stop(&self, _: Upcall<'_>) -> Result<()> {
        self.orb.shutdown(false)
    }
}

impl Lender for Echo {
    fn exchange<'u>(&'u self, cx: Upcall<'u>, f: Lent<'u, u8>) -> Result<&'u [u8]> {
        Ok(cx.keep(cx.loan::<u8>(f.len())?)?)
    }
}

/// So many structures to send.
pub(crate) fn readings(count: u32) -> Vec<Reading> {
    let reading = |i: u32| Reading { value: f64::from(i), stamp: i.into(), unit: UNIT.to_owned() };
    (0..count).map(reading).collect()
}

/// The shortest loan.
const LOAN_FROM: usize = 4096;

/// Calls the object.
pub(super) struct Caller {
    orb: Orb,
    target: TargetRef,
    kind: Kind,
    octets: Vec<u8>,
    /// Long sequences of octets are loans.
    lends: bool,
    loan: Option<Loan<u8>>,
    /// Answers loans with loans.
    lender: Option<LenderRef>,
    text: String,
    readings: Vec<Reading>,
    samples: Vec<Sample>,
    message: Message,
}

impl Caller {
    pub(super) fn new(orb: Orb, target: TargetRef) -> Caller {
        Caller {
            orb,
            target,
            kind: Kind::Void,
            octets: Vec::new(),
            lends: false,
            loan: None,
            lender: None,
            text: String::new(),
            readings: Vec::new(),
            samples: Vec::new(),
            message: Message { work: 0, payload: Vec::new() },
        }
    }
}

impl Client for Caller {
    type Error = SystemException;

    fn prepare(&mut self, case: Case, _: usize) -> Result<()> {
        self.kind = case.kind;
        match case.kind {
            Kind::Void => {}
            Kind::Octets | Kind::Oneway if self.lends && case.size >= LOAN_FROM => {
                self.loan = None;
                let loan = self.loan.insert(self.orb.loan(&self.target, case.size)?);
                if let Some(octets) = loan.get_mut() {
                    octets.fill(1);
                }
            }
            Kind::Octets | Kind::Oneway => (self.loan, self.octets) = (None, vec![1; case.size]),
            Kind::Text => self.text = "x".repeat(case.size),
            Kind::Structs => {
                self.readings = readings(READINGS);
            }
            Kind::Plain => {
                let sample = |stamp: u64| Sample { value: 0.5, stamp };
                self.samples = (0..(case.size / SAMPLE) as u64).map(sample).collect();
            }
            Kind::Message | Kind::Post => self.message.payload = vec![1; case.size],
        }
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (orb, target) = (&self.orb, &self.target);
        let octets = self.loan.as_deref().unwrap_or(&self.octets);
        match self.kind {
            Kind::Void => target.ping(),
            Kind::Octets => orb.scope(|scope| match &self.lender {
                Some(lender) => lender.exchange_in(scope, octets).map(drop),
                None => target.echo_in(scope, octets).map(drop),
            }),
            Kind::Text => orb.scope(|scope| target.text_in(scope, &self.text).map(drop)),
            Kind::Structs => orb.scope(|scope| target.structs_in(scope, &self.readings).map(drop)),
            Kind::Plain => orb.scope(|scope| target.plain_in(scope, &self.samples).map(drop)),
            Kind::Oneway => target.feed(octets),
            Kind::Message => orb.scope(|scope| {
                let mut message = MessageView { work: self.message.work, payload: &self.message.payload };
                target.method_in(scope, &mut message)
            }),
            Kind::Post => target.post(&self.message),
        }
    }

    fn arrived(&mut self) -> Result<()> {
        self.target.fed().map(drop)
    }
}
