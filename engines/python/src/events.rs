//! Event channels of other processes, and recordings of events.

pub mod event;
pub mod recordings;

use self::event::{PyEvent, class_handle, encode};
use self::recordings::Recording;
use crate::error;
use crate::object::duration;
use crate::orb::{PyOrb, SIGNALS};
use crate::types::TypeHandle;
use isorb_event::remote::{RemoteChannel, RemoteConsumer, RemoteError, RemoteSupplier};
use isorb_event::{Data, Event, Filter, Header};
use isorb_event_file::{RecordedEvent, Recorder, RecorderOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remote(py: Python<'_>, failed: RemoteError) -> PyErr {
    match failed {
        RemoteError::System(exception) => error::system(py, &exception),
        other => error::other(py, other),
    }
}

fn filter(r#type: Option<i32>, source: Option<i32>) -> Filter {
    match (r#type, source) {
        (Some(event_type), Some(source)) => Filter::of(event_type, source),
        (Some(event_type), None) => Filter::of_type(event_type),
        (None, Some(source)) => Filter::from_source(source),
        (None, None) => Filter::Everything,
    }
}

/// An event channel of another process. It stays connected when the channel is restarted.
#[pyclass(frozen, module = "isorb")]
pub struct EventChannel {
    channel: RemoteChannel,
}

#[pymethods]
impl EventChannel {
    /// The channel of a URL or name.
    #[new]
    #[pyo3(signature = (orb, url, timeout=None))]
    fn new(
        py: Python<'_>,
        orb: &Bound<'_, PyOrb>,
        url: &str,
        timeout: Option<f64>,
    ) -> PyResult<EventChannel> {
        let mut builder = RemoteChannel::builder();
        if let Some(seconds) = timeout {
            builder = builder.timeout(duration(seconds, "EventChannel: timeout")?);
        }
        let orb = orb.get().orb.clone();
        let channel = py.detach(|| builder.connect(&orb, url)).map_err(|error| remote(py, error))?;
        Ok(EventChannel { channel })
    }

    /// Consumes events of a type and source, or of all. Without a `handler` they wait in a queue of
    /// at most `queue` events, which `next` and iteration take them from; further ones are dropped
    /// and counted. A handler runs on a thread of the ORB, as each event arrives. `payload` is the
    /// class of the values.
    #[pyo3(signature = (handler=None, r#type=None, source=None, payload=None, queue=10_000))]
    fn consume(
        &self,
        py: Python<'_>,
        handler: Option<Py<PyAny>>,
        r#type: Option<i32>,
        source: Option<i32>,
        payload: Option<&Bound<'_, PyAny>>,
        queue: usize,
    ) -> PyResult<Consumer> {
        let payload = payload.map(|class| class_handle(class, "consume: payload")).transpose()?;
        let waiting = Arc::new(Waiting { most: queue, ..Waiting::default() });
        let filter = filter(r#type, source);
        let connected = match handler {
            None => {
                let waiting = waiting.clone();
                py.detach(|| self.channel.consume(filter, move |event| waiting.put(event)))
            }
            Some(handler) => {
                let payload = payload.as_ref().map(|payload| payload.clone_ref(py));
                py.detach(|| {
                    self.channel.consume(filter, move |event| run(&handler, payload.as_ref(), event))
                })
            }
        };
        let consumer = connected.map_err(|error| remote(py, error))?;
        Ok(Consumer { consumer: Mutex::new(Some(consumer)), waiting, payload })
    }

    /// A supplier of events.
    fn supplier(&self, py: Python<'_>) -> PyResult<Supplier> {
        let supplier = py.detach(|| self.channel.supplier()).map_err(|error| remote(py, error))?;
        Ok(Supplier { supplier: Mutex::new(Some(supplier)) })
    }

    /// Records events into a file until `stop`. No event waits for the interpreter.
    #[pyo3(signature = (path, r#type=None, source=None))]
    fn record(
        &self,
        py: Python<'_>,
        path: PathBuf,
        r#type: Option<i32>,
        source: Option<i32>,
    ) -> PyResult<Recording> {
        let recorder = Recorder::create(&path, RecorderOptions::default())
            .map_err(|why| error::other(py, format!("{}: {why}", path.display())))?;
        let recorder = Arc::new(recorder);
        let of = recorder.clone();
        let record = move |event: &Event<'_>| {
            let Header { event_type, source, ttl, creation_time } = event.header;
            let Data { pad1, octets, any } = event.data;
            let (supplier, number) = (event.origin.supplier, event.origin.number);
            of.record(&RecordedEvent {
                event_type,
                source,
                ttl,
                pad1,
                at_ns: 0,
                creation_time,
                supplier,
                number,
                octets,
                any,
            });
        };
        let filter = filter(r#type, source);
        let consumer =
            py.detach(|| self.channel.consume(filter, record)).map_err(|error| remote(py, error))?;
        Ok(Recording { consumer: Mutex::new(Some(consumer)), recorder, path })
    }
}

/// Runs a handler of Python on the thread that an event arrived on.
fn run(handler: &Py<PyAny>, payload: Option<&Py<TypeHandle>>, event: &Event<'_>) {
    Python::try_attach(|py| {
        let mut event = PyEvent::of(event);
        event.payload = payload.map(|payload| payload.clone_ref(py));
        let ran = Bound::new(py, event).and_then(|event| handler.call1(py, (event,)));
        if let Err(error) = ran {
            error.write_unraisable(py, Some(handler.bind(py)));
        }
    });
}

/// Events that wait for Python.
#[derive(Default)]
struct Waiting {
    most: usize,
    events: Mutex<VecDeque<PyEvent>>,
    arrived: Condvar,
    dropped: Mutex<u64>,
}

impl Waiting {
    fn put(&self, event: &Event<'_>) {
        let event = PyEvent::of(event);
        let mut events = locked(&self.events);
        if events.len() >= self.most {
            drop(events);
            *locked(&self.dropped) += 1;
            return;
        }
        events.push_back(event);
        drop(events);
        self.arrived.notify_one();
    }

    fn take(&self, limit: Duration) -> Option<PyEvent> {
        let (mut events, _) = self
            .arrived
            .wait_timeout_while(locked(&self.events), limit, |events| events.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        events.pop_front()
    }
}

/// A consumer of a channel.
#[pyclass(frozen, module = "isorb")]
pub struct Consumer {
    consumer: Mutex<Option<RemoteConsumer>>,
    waiting: Arc<Waiting>,
    payload: Option<Py<TypeHandle>>,
}

#[pymethods]
impl Consumer {
    /// The next event; waits for one up to `timeout` seconds, for ever with None. None when none
    /// came.
    #[pyo3(signature = (timeout=1.0))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<PyEvent>> {
        let limit = timeout.map(|seconds| duration(seconds, "next")).transpose()?;
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = end.map_or(SIGNALS, |end| end.saturating_duration_since(Instant::now()).min(SIGNALS));
            let taken = py.detach(|| self.waiting.take(left));
            if let Some(mut event) = taken {
                event.payload = self.payload.as_ref().map(|payload| payload.clone_ref(py));
                return Ok(Some(event));
            }
            py.check_signals()?;
            if end.is_some_and(|end| end <= Instant::now()) || locked(&self.consumer).is_none() {
                return Ok(None);
            }
        }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyEvent>> {
        self.next(py, None)
    }

    /// Counts: received, lost on their way, malformed, dropped for want of room in the queue.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        let known =
            py.detach(|| locked(&self.consumer).as_ref().map(RemoteConsumer::counts)).unwrap_or_default();
        counts.set_item("received", known.received)?;
        counts.set_item("lost", known.lost)?;
        counts.set_item("connected", known.connected)?;
        counts.set_item("dropped", *locked(&self.waiting.dropped))?;
        Ok(counts)
    }

    /// Disconnects.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let consumer = locked(&self.consumer).take();
            drop(consumer);
        });
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A supplier of a channel.
#[pyclass(frozen, module = "isorb")]
pub struct Supplier {
    supplier: Mutex<Option<RemoteSupplier>>,
}

#[pymethods]
impl Supplier {
    /// Pushes an event of a type and source: with a `value` of a class of an IDL file, or bytes.
    #[pyo3(signature = (r#type, source, value=None))]
    fn push(
        &self,
        py: Python<'_>,
        r#type: i32,
        source: i32,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let octets = match value {
            None => Vec::new(),
            Some(value) => match value.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes().to_vec(),
                Err(_) => encode(value)?.as_bytes().to_vec(),
            },
        };
        self.send(py, &Event::new(r#type, source).octets(&octets))
    }

    /// Pushes an event as it came, such as one of a recording.
    fn push_event(&self, py: Python<'_>, event: &Bound<'_, PyEvent>) -> PyResult<()> {
        self.send(py, &event.get().event())
    }

    /// Disconnects.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let supplier = locked(&self.supplier).take();
            drop(supplier);
        });
    }
}

impl Supplier {
    fn send(&self, py: Python<'_>, event: &Event<'_>) -> PyResult<()> {
        let pushed = py.detach(|| locked(&self.supplier).as_ref().map(|supplier| supplier.push(event)));
        match pushed {
            Some(Ok(())) => Ok(()),
            Some(Err(exception)) => Err(error::system(py, &exception)),
            None => Err(error::other(py, "the supplier was closed")),
        }
    }
}
