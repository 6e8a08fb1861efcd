//! The compiled half of the Python package: private classes, and no algorithm.
//!
//! * [`Examples`](examples::Examples) holds the arrays of one call: borrowed, never copied, looked at once.
//! * [`Trainer`](trainer::Trainer) is one dynamic problem behind a lock, which is taken for a piece of work at a time, so
//!   that one thread may ask for the model while another trains; it tells what it was made with
//!   ([`Made`](trainer::Made)) and how far it is ([`Facts`](trainer::Facts)). [`Fit`](trainer::Fit) runs the crate's policy
//!   on it and tells Python of every epoch. [`Refit`](refit::Refit) solves in the span of a model's support vectors.
//! * [`Hasher`](hasher::Hasher) makes rows of dictionaries, which trainers learn from one at a time ([`single`]);
//!   [`ProbabilityMap`](single::ProbabilityMap) makes probabilities of their scores.
//! * [`Model`](model::Model) predicts from a file, with nothing but NumPy near it.
//! * [`Svmlight`](svmlight::Svmlight) makes arrays of blocks of text, batch by batch; [`Loader`](loader::Loader) makes
//!   large ones of all of it.
//! * The interpreter is released while numbers are computed, in pieces of about 50 ms, and Ctrl-C is looked for in between
//!   ([`work`]).
//! * It does without the interpreter's lock where there is none: every class is frozen, what changes is behind a lock of its
//!   own, and nobody who holds one waits for somebody that waits for the interpreter. Arrays are read as they are while the
//!   interpreter is released: what other threads write to them meanwhile is read, and resizing them is NumPy's to forbid.

mod examples;
mod hasher;
mod kernel;
mod linear;
mod loader;
mod metric;
mod model;
mod parts;
mod refit;
mod scores;
mod shapley;
mod single;
mod svmlight;
mod trainer;

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::{Error, ErrorKind, Progress, threads};

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
            ErrorKind::Io { .. } => PyOSError::new_err(text),
            // What a file holds is told as it stands there.
            ErrorKind::Text { .. } => PyValueError::new_err(error.to_string()),
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

/// How long parts of a fit follow one another before anybody else is attended to: to go to the threads of a pool and back takes
/// longer than tiny ones do.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What a piece of work, which has done so much, leaves to be done.
enum Left {
    /// More.
    More(usize),
    /// More, of which nobody knows how long it takes.
    Other(usize),
    /// Nothing.
    None(usize),
}

/// Calls `piece(size)` with the interpreter released until nothing is left, with a size that makes a call take about
/// [`PIECE`], `first` to begin with; in between attends to signals and tells `progress` how much was done. A panic becomes an
/// `InternalError`.
fn work(
    py: Python<'_>,
    first: usize,
    progress: &mut dyn FnMut(usize) -> PyResult<()>,
    piece: &mut (dyn FnMut(usize) -> Result<Left, Error> + Send),
) -> PyResult<()> {
    let mut size = first;
    loop {
        let (left, took) = py.detach(|| {
            let start = Instant::now();
            (catch_unwind(AssertUnwindSafe(|| piece(size))), start.elapsed())
        });
        let left = left.map_err(defect)??;
        py.check_signals()?;
        let (Left::More(done) | Left::Other(done) | Left::None(done)) = left;
        if done > 0 {
            progress(done)?;
        }
        match left {
            Left::None(_) => return Ok(()),
            Left::Other(_) => size = FIRST,
            // `took` is without the time that the interpreter was waited for, which no smaller piece would shorten.
            Left::More(_) if took < PIECE / 2 => {
                let fits = PIECE.as_nanos() / (2 * took.as_nanos()).max(1);
                size = size.saturating_mul((fits as usize).clamp(2, GROWTH));
            }
            Left::More(_) if took > PIECE => size = (size / 2).max(1),
            Left::More(_) => {}
        }
    }
}

/// Parts of a fit, which `part(size)` does, for [`AT_ONCE`] or until an epoch is over; and how the last one ended.
fn go_on(
    mut size: usize,
    mut part: impl FnMut(usize) -> Result<Progress, Error>,
) -> Result<(Left, Progress), Error> {
    let (start, mut done, mut other) = (Instant::now(), 0, false);
    loop {
        let progress = part(size)?;
        let Progress::Going { rows, anew } = progress else {
            return Ok((Left::None(done), progress));
        };
        done += rows;
        if anew {
            (other, size) = (true, FIRST);
        }
        if start.elapsed() >= AT_ONCE {
            return Ok((if other { Left::Other(done) } else { Left::More(done) }, progress));
        }
    }
}

/// What a panic is told as.
fn defect(panic: Box<dyn Any + Send>) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    InternalError::new_err(text.unwrap_or("a panic without a message").to_owned())
}

/// Calls `piece` on ranges that make up `0..n`, as [`work`] does, and tells nobody.
fn in_pieces(
    py: Python<'_>,
    first: usize,
    n: usize,
    piece: &mut (dyn FnMut(Range<usize>) -> Result<(), Error> + Send),
) -> PyResult<()> {
    let mut at = 0;
    work(py, first, &mut |_| Ok(()), &mut |size| {
        let end = at + size.min(n - at);
        piece(at..end)?;
        at = end;
        Ok(if at < n { Left::More(size) } else { Left::None(0) })
    })
}

/// Fewer multiplications one thread does while others wake up.
const LITTLE: usize = 1 << 20;

/// The threads of a call.
struct Pool(Option<Arc<rayon::ThreadPool>>);

impl Pool {
    /// So many for `count` tasks: more would never have work.
    fn new(threads: usize, count: usize) -> PyResult<Self> {
        let threads = threads.min(count);
        Ok(Pool(if threads > 1 { Some(pool(threads)?) } else { None }))
    }

    /// For `n` rows, each of which takes so many multiplications: so many, or one where that is soon done. Nothing in between,
    /// as one pool is kept, which calls of all sizes share.
    fn of_rows(threads: usize, n: usize, multiplications: usize) -> PyResult<Self> {
        let little = n.saturating_mul(multiplications) < LITTLE;
        Pool::new(threads, if little { 1 } else { n })
    }

    /// Calls `f`, whose tasks are done by these threads.
    fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let mut f = Some(f);
        let mut result = None;
        let mut once = || result = f.take().map(|f| f());
        self.install(&mut once);
        match result {
            Some(result) => result,
            None => unreachable!("install calls what it is given"),
        }
    }

    fn install(&self, f: &mut (dyn FnMut() + Send)) {
        match &self.0 {
            Some(pool) => pool.install(f),
            None => threads::alone(f),
        }
    }
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

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic was reported when it happened; between two steps the state is sound.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(name: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("{name} has no choice {value:?}"))
}

/// The one of these with the name `value`, of a parameter.
fn choice<T: Copy>(parameter: &str, value: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| unknown(parameter, value))
}

/// Rows by number.
fn numbers(rows: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<usize>> {
    // A negative number becomes one that no row has.
    Ok(rows.as_slice()?.iter().map(|&i| i as usize).collect())
}

/// The cores that this process may use: within its affinity, and a container's quota.
#[pyfunction]
fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[pymodule(gil_used = false)]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // The first array that crosses has NumPy's functions looked up, by Python code, and what interrupts that is a panic
    // in rust-numpy: an interrupt of somebody's first fit shall not be.
    PyArray1::<f64>::zeros(m.py(), 0, false).try_readonly()?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("FORMAT", crate::model::FORMAT)?;
    m.add("InternalError", m.py().get_type::<InternalError>())?;
    m.add("NonFiniteError", m.py().get_type::<NonFiniteError>())?;
    m.add_class::<examples::Examples>()?;
    m.add_class::<hasher::Hasher>()?;
    m.add_class::<single::ProbabilityMap>()?;
    m.add_class::<trainer::Made>()?;
    m.add_class::<trainer::Facts>()?;
    m.add_class::<trainer::Trainer>()?;
    m.add_class::<trainer::Fit>()?;
    m.add_class::<refit::Refit>()?;
    m.add_class::<metric::Metric>()?;
    m.add_function(wrap_pyfunction!(available_parallelism, m)?)?;
    m.add_class::<model::Model>()?;
    m.add_function(wrap_pyfunction!(model::read_model, m)?)?;
    m.add_function(wrap_pyfunction!(model::model_bytes, m)?)?;
    m.add_class::<svmlight::Svmlight>()?;
    m.add_class::<loader::Loader>()?;
    m.add_function(wrap_pyfunction!(metric::agop_of, m)?)?;
    m.add_function(wrap_pyfunction!(metric::gradients_of, m)?)?;
    m.add_function(wrap_pyfunction!(shapley::shapley_of, m)?)?;
    m.add_function(wrap_pyfunction!(shapley::linear_shapley_of, m)?)
}

/// Has nothing in it: by the symbol of this name threadpoolctl tells this library from others called `_core`.
#[pymodule(gil_used = false)]
fn pegasos_threads(_: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
