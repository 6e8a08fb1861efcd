//! The compiled half of the Python package: private classes, and no algorithm.
//!
//! Arrays are borrowed, never copied; the Python side has made them contiguous (`arrays.rs`). The
//! interpreter is released while training, in pieces of about 50 ms, and Ctrl-C is looked for in between
//! ([`work`]).

mod arrays;
mod budget;
mod kernel;
mod linear;
mod linear_parts;
mod machine;
mod problem;
mod refit;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::threads::side_by_side;
use crate::{Error, ErrorKind};

pyo3::create_exception!(
    pegasos,
    InternalError,
    PyRuntimeError,
    "A defect of pegasos itself, not of its input. Please report it."
);
pyo3::create_exception!(
    pegasos._core,
    NonFiniteError,
    PyValueError,
    "The data hold NaN or infinity, or numbers so large that a score overflows."
);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        // The one parameter whose name in Python is another.
        let text = error.to_string().replace("lambda", "alpha");
        match error.kind() {
            ErrorKind::NonFinite { .. } => NonFiniteError::new_err(text),
            ErrorKind::Memory { .. } => PyMemoryError::new_err(text),
            _ => PyValueError::new_err(text),
        }
    }
}

/// How long the interpreter is left alone at a time.
const PIECE: Duration = Duration::from_millis(50);

/// The size of the first piece where nobody knows how long it takes, and at most.
const FIRST: usize = 16;
const MOST_AT_FIRST: usize = 1024;

/// Multiplications that surely take less than [`PIECE`].
const SOON: usize = 1 << 23;

/// The size of the first piece where one of size 1 takes about so many multiplications.
fn first_of(multiplications: usize) -> usize {
    (SOON / multiplications.max(1)).clamp(FIRST, MOST_AT_FIRST)
}

/// By how much a piece may be larger than the one before.
const GROWTH: usize = 32;

/// Calls `piece(size)` with the interpreter released until it returns `None`, with a size that makes
/// a call take about [`PIECE`]; in between attends to signals and tells `progress` what `piece`
/// returned. A panic becomes an `InternalError`.
fn work(
    py: Python<'_>,
    progress: impl FnMut(usize) -> PyResult<()>,
    piece: impl FnMut(usize) -> Result<Option<usize>, Error> + Send,
) -> PyResult<()> {
    work_from(py, &Pace::new(FIRST), progress, piece)
}

/// The size of the next piece. Pieces of another kind may take longer: who begins with them says so.
struct Pace(AtomicUsize);

impl Pace {
    fn new(size: usize) -> Self {
        Pace(AtomicUsize::new(size))
    }

    fn size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Nobody knows how long the next piece takes; returns what its size may be.
    fn begin_anew(&self) -> usize {
        self.0.store(FIRST, Ordering::Relaxed);
        FIRST
    }

    /// So long did a piece of this size take.
    fn heed(&self, took: Duration) {
        let size = self.size();
        if took < PIECE / 2 {
            let fits = PIECE.as_nanos() / (2 * took.as_nanos()).max(1);
            let larger = size.saturating_mul((fits as usize).clamp(2, GROWTH));
            self.0.store(larger, Ordering::Relaxed);
        } else if took > PIECE {
            self.0.store((size / 2).max(1), Ordering::Relaxed);
        }
    }
}

/// [`work`] at a pace that is given.
fn work_from(
    py: Python<'_>,
    pace: &Pace,
    mut progress: impl FnMut(usize) -> PyResult<()>,
    mut piece: impl FnMut(usize) -> Result<Option<usize>, Error> + Send,
) -> PyResult<()> {
    loop {
        let (done, took) = py.detach(|| {
            let start = Instant::now();
            (catch_unwind(AssertUnwindSafe(|| piece(pace.size()))), start.elapsed())
        });
        let done = done.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            InternalError::new_err(text.unwrap_or("a panic without a message").to_owned())
        })??;
        py.check_signals()?;
        let Some(done) = done else {
            return Ok(());
        };
        progress(done)?;
        // Without the time that the interpreter was waited for, which no smaller piece would shorten.
        pace.heed(took);
    }
}

/// Calls `piece` on ranges that make up `0..n`, as [`work`] does.
fn in_pieces(
    py: Python<'_>,
    n: usize,
    piece: impl FnMut(Range<usize>) -> Result<(), Error> + Send,
) -> PyResult<()> {
    in_pieces_from(py, FIRST, n, piece)
}

/// [`in_pieces`] with a first piece of this size.
fn in_pieces_from(
    py: Python<'_>,
    first: usize,
    n: usize,
    mut piece: impl FnMut(Range<usize>) -> Result<(), Error> + Send,
) -> PyResult<()> {
    let mut at = 0;
    work_from(py, &Pace::new(first), silent, |size| {
        let end = at + size.min(n - at);
        piece(at..end)?;
        at = end;
        Ok((at < n).then_some(size))
    })
}

/// Tells a Python function, if there is one, how much was done.
fn tell<'a, 'py>(
    progress: Option<&'a Bound<'py, PyAny>>,
) -> impl FnMut(usize) -> PyResult<()> + use<'a, 'py> {
    move |done| progress.map_or(Ok(()), |progress| progress.call1((done,)).map(drop))
}

/// Tells nobody.
fn silent(_: usize) -> PyResult<()> {
    Ok(())
}

/// The pool of `threads` threads of this process. A forked child inherits a pool without its
/// threads, so the pool is kept with the number of the process that made it; and maybe the lock that
/// another thread held while it forked, which nobody will open: then the pool is one of this call alone.
fn pool(threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    type Made = (u32, usize, Arc<rayon::ThreadPool>);
    static POOL: Mutex<Option<Made>> = Mutex::new(None);
    let key = (std::process::id(), threads);
    let mut made = match POOL.try_lock() {
        Ok(made) => Some(made),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(Some((pid, threads, pool))) = made.as_deref()
        && (*pid, *threads) == key
    {
        return Ok(pool.clone());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(pool.map_err(|e| PyRuntimeError::new_err(e.to_string()))?);
    let Some(made) = &mut made else {
        return Ok(pool);
    };
    // Dropping a pool inherited through a fork would wait for threads that are not there.
    if let Some((pid, _, old)) = made.replace((key.0, key.1, pool.clone()))
        && pid != key.0
    {
        std::mem::forget(old);
    }
    Ok(pool)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic was reported when it happened; between two steps the state is sound.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The pool for `count` tasks on so many threads; none where one thread does them.
fn pool_for(threads: usize, count: usize) -> PyResult<Option<Arc<rayon::ThreadPool>>> {
    // A thread more than there are tasks would never have work.
    let threads = threads.min(count);
    (threads > 1).then(|| pool(threads)).transpose()
}

/// Calls `f` on every item; without a pool here, where rayon would use its global one.
fn each<T: Send, R: Send>(
    pool: &Option<Arc<rayon::ThreadPool>>,
    items: &mut [T],
    f: impl Fn(usize, &mut T) -> R + Sync,
) -> Vec<R> {
    match pool {
        Some(pool) => pool.install(|| side_by_side(items, &f)),
        None => items.iter_mut().enumerate().map(|(k, item)| f(k, item)).collect(),
    }
}

fn unknown(name: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("{name} has no choice {value:?}"))
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("InternalError", m.py().get_type::<InternalError>())?;
    m.add("NonFiniteError", m.py().get_type::<NonFiniteError>())?;
    m.add_function(wrap_pyfunction!(arrays::check_shape, m)?)?;
    m.add_function(wrap_pyfunction!(arrays::squared_norms, m)?)?;
    m.add_class::<linear::LinearTrainer>()?;
    m.add_class::<kernel::KernelTrainer>()?;
    m.add_class::<budget::BudgetTrainer>()?;
    m.add_class::<refit::PyRefit>()
}
