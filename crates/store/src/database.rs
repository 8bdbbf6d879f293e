//! A database that suspends writes after a fault of the disk, and resumes them.

use crate::guarded::Guarded;
use crate::open::{self, guard};
use crate::{Fault, OpenError, Schema, StoreError};
use isorb_rt::log;
use redb::{ReadTransaction, ReadableDatabase, WriteTransaction};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

const TARGET: &str = "isorb::store";
/// The shortest pause between two attempts to resume writes.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 100 });

/// A database in one file.
///
/// # Real-time
/// Not for real-time lanes: it allocates, takes locks, and waits for its disk.
pub struct Database<S> {
    path: PathBuf,
    schema: S,
    state: RwLock<State>,
}

enum State {
    Open(Guarded, Arc<File>),
    Suspended(Suspended),
}

/// Writes are refused.
struct Suspended {
    /// The records of the file, unless it cannot even be read.
    view: Option<Guarded>,
    /// Locked, so that no other process opens it meanwhile.
    file: Arc<File>,
    /// Whether this process has written the file, and nothing else can have.
    own: bool,
    fault: Fault,
    /// When the next write attempts to resume.
    retry: Instant,
}

impl<S: Schema> Database<S> {
    /// Opens a database, or creates one if there is no file.
    ///
    /// The whole file is read, checked and written anew (which also frees the space of removed
    /// records), in time proportional to its size. Where it cannot be written anew, as on a full
    /// disk, writes are suspended.
    ///
    /// # Errors
    /// [`OpenError`]; a file that is not a database of this schema is not changed.
    pub fn open(path: impl AsRef<Path>, schema: S) -> Result<Database<S>, OpenError> {
        let path = open::resolve(path.as_ref())?;
        guard(|| open::make_if_missing(&path, &schema))?;
        let file = open::lock(&path)?;
        let view = open::check(&file, &schema)?;
        let state = match open::renew(&path, &view, &schema) {
            Ok((database, file)) => State::Open(database, file),
            Err(error) => {
                let fault = error.fault().ok_or(error)?;
                report(&path, fault);
                let retry = Instant::now() + PAUSE;
                State::Suspended(Suspended { view: Some(view), file, own: false, fault, retry })
            }
        };
        Ok(Database { path, schema, state: RwLock::new(state) })
    }

    /// A database that is open.
    pub(crate) fn opened(path: PathBuf, schema: S, database: Guarded, file: Arc<File>) -> Database<S> {
        Database { path, schema, state: RwLock::new(State::Open(database, file)) }
    }

    /// Whether writes are suspended, and the fault that suspended them.
    pub fn suspended(&self) -> Option<Fault> {
        match &*self.shared() {
            State::Open(..) => None,
            State::Suspended(suspended) => Some(suspended.fault),
        }
    }

    /// Reads. After a fault of the disk the operation runs a second time, on what the file holds.
    ///
    /// # Errors
    /// Those of `run`, and [`Fault`]s.
    pub fn read<T, E: StoreError>(&self, run: impl Fn(&ReadTransaction) -> Result<T, E>) -> Result<T, E> {
        let attempt = || {
            let state = self.shared();
            let database = match &*state {
                State::Open(database, _) => database,
                State::Suspended(Suspended { view: Some(view), .. }) => view,
                State::Suspended(suspended) => return Err(suspended.fault.into()),
            };
            guard(|| run(&database.begin_read().map_err(Fault::from)?))
        };
        let result = attempt();
        match result.as_ref().err().and_then(E::fault) {
            Some(fault) if fault.suspends() => {
                self.suspend(fault);
                attempt()
            }
            _ => result,
        }
    }

    /// Runs one transaction. When it returns, the transaction is on disk or has no effect. Only
    /// after a [`Fault`] it may have one, as with a connection that breaks.
    ///
    /// # Errors
    /// Those of `run`, and [`Fault`]s. While writes are suspended the fault that suspended them.
    pub fn write<T, E: StoreError>(
        &self,
        run: impl FnOnce(&WriteTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.resume()?;
        let result = match &*self.shared() {
            State::Suspended(suspended) => return Err(suspended.fault.into()),
            State::Open(database, _) => guard(|| {
                let transaction = open::begin(database)?;
                match run(&transaction) {
                    Ok(value) => {
                        transaction.commit().map_err(Fault::from)?;
                        Ok(value)
                    }
                    Err(error) => {
                        transaction.abort().map_err(Fault::from)?;
                        Err(error)
                    }
                }
            }),
        };
        if let Some(fault) = result.as_ref().err().and_then(E::fault).filter(|fault| fault.suspends()) {
            self.suspend(fault);
        }
        result
    }

    /// Replaces the failed database by a view of its file.
    fn suspend(&self, fault: Fault) {
        let mut state = self.exclusive();
        let (file, own) = match &*state {
            State::Open(_, file) => {
                report(&self.path, fault);
                (Arc::clone(file), true)
            }
            // A view fails only if the file cannot be read.
            State::Suspended(Suspended { file, own, retry, .. }) if Instant::now() >= *retry => {
                (Arc::clone(file), *own)
            }
            State::Suspended(_) => return,
        };
        // Dropping the failed database writes, before the view is taken.
        *state = State::Suspended(Suspended {
            view: None,
            file: Arc::clone(&file),
            own,
            fault,
            retry: Instant::now() + PAUSE,
        });
        if let State::Suspended(suspended) = &mut *state {
            suspended.view = open::check(&file, &self.schema).ok();
        }
    }

    /// Opens the database for writes again, if they are suspended and an attempt is due.
    fn resume(&self) -> Result<(), Fault> {
        if matches!(&*self.shared(), State::Open(..)) {
            return Ok(());
        }
        let mut state = self.exclusive();
        let State::Suspended(suspended) = &mut *state else { return Ok(()) };
        let start = Instant::now();
        if start < suspended.retry {
            return Err(suspended.fault);
        }
        match self.renew(suspended) {
            Ok((database, file)) => {
                *state = State::Open(database, file);
                let path = self.path.display();
                log::info(TARGET, format_args!("{path}: writes succeed again"));
                Ok(())
            }
            Err(error) => {
                if let Some(fault) = error.fault() {
                    suspended.fault = fault;
                }
                // Attempts copy the file, and take at most a tenth of the time.
                suspended.retry = Instant::now() + PAUSE.max(start.elapsed() * 10);
                Err(suspended.fault)
            }
        }
    }

    fn renew(&self, suspended: &mut Suspended) -> Result<(Guarded, Arc<File>), OpenError> {
        let view = match &suspended.view {
            Some(view) => view,
            None => suspended.view.insert(open::check(&suspended.file, &self.schema)?),
        };
        match open::renew(&self.path, view, &self.schema) {
            Err(error) if suspended.own && error.fault().is_some() => {
                let database = open::reopen(&suspended.file)?;
                Ok((database, Arc::clone(&suspended.file)))
            }
            other => other,
        }
    }

    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(path: &Path, fault: Fault) {
    let path = path.display();
    log::error(TARGET, format_args!("{path}: {fault}; writes are suspended, reads go on"));
}

impl<S> fmt::Debug for Database<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}
