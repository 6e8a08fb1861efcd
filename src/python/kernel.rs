//! `KernelTrainer`: one kernel problem.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Labels, Matrix, Order, examples};
use super::machine::{
    self, Arrays, Machine, Made, Problem, Rowwise, Stored, Told, coefs, run, scores, set_totals,
    to_arrays, vectors, with_vectors,
};
use super::problem::{Pickled, any, array, check, item, locked, with};
use super::{in_pieces, lock, pool, silent, work};
use crate::{
    Error, Examples, Expansion, ExpansionState, Kernel, KernelAscent, Loss, Rows, Scalar, Trainer,
};

type Problems = machine::Problems<Expansion<f32>, Expansion<f64>>;
type Unbounded<S, L> = Mutex<Problem<Expansion<S>, L>>;

impl<S: Scalar + numpy::Element> Machine for Expansion<S> {
    fn make(kernel: Kernel, outputs: usize, made: &Made, _: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(match made.sparse {
            true => Expansion::sparse(kernel, outputs, made.n_features)?,
            false => Expansion::new(kernel, outputs, made.n_features)?,
        })
    }

    fn take_parts(&mut self, parts: &Bound<'_, PyDict>) -> PyResult<()> {
        let state = ExpansionState {
            v: array(parts, "v")?,
            u: array(parts, "u")?,
            a: item(parts, "a")?.extract()?,
            norm2: item(parts, "norm2")?.extract()?,
            sum_a: item(parts, "sum_a")?.extract()?,
            sum_q: item(parts, "sum_q")?.extract()?,
            counts: array(parts, "counts")?,
            norms: array(parts, "norms")?,
        };
        let rows: Option<PyReadonlyArray1<'_, i64>> = item(parts, "rows")?.extract()?;
        if rows.is_some() {
            // Of a matrix that is gone.
            self.number_rows(0)?;
        }
        let numbers: Option<Vec<usize>> = match &rows {
            Some(rows) => Some(rows.as_slice()?.iter().map(|&i| i as usize).collect()),
            None => None,
        };
        let numbers = numbers.as_deref();
        with_vectors(parts, self.n_features(), |vectors| match vectors {
            Rowwise::Dense(vectors) => self.restore(&vectors, numbers, &state),
            Rowwise::Sparse(vectors) => self.restore(&vectors, numbers, &state),
        })
    }

    const PANEL: usize = crate::PANEL;

    /// But not of what is kept for later epochs.
    fn copy<L: Loss + Clone>(trainer: &mut Trainer<Self, L>) -> Result<Trainer<Self, L>, Error> {
        let kept = trainer.hypothesis_mut().take_kept();
        let copy = trainer.check_copy().map(|()| trainer.clone());
        trainer.hypothesis_mut().give_kept(kept);
        copy
    }

    fn n_vectors(&self) -> usize {
        Expansion::n_vectors(self)
    }

    fn for_each(&self, k: usize, f: impl FnMut(usize, S)) {
        Expansion::for_each(self, k, f);
    }

    /// A copy, but not of what is kept for later epochs.
    fn model<L: Loss>(trainer: &mut Trainer<Self, L>) -> Result<Self, Error> {
        let kept = trainer.hypothesis_mut().take_kept();
        let model = trainer.result();
        trainer.hypothesis_mut().give_kept(kept);
        Ok(model)
    }
}

/// A kernel problem: of two classes by one score, of more by a score for each.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct KernelTrainer {
    problem: Problems,
    made: Made,
}

fn evaluate<X: Rows<Scalar: numpy::Element>, L: Loss + Clone + Send>(
    py: Python<'_>,
    problem: &Unbounded<X::Scalar, L>,
    data: &Examples<'_, X>,
    threads: usize,
) -> PyResult<(f64, f64)> {
    // A copy, as other threads must not wait for a whole evaluation.
    let trainer = py.detach(|| Machine::copy(&mut lock(problem).trainer))?;
    let mut evaluation = trainer.evaluation(data)?;
    let pool = pool(threads)?;
    in_pieces(py, data.len(), |rows| pool.install(|| evaluation.add(rows)))?;
    let certificate = evaluation.finish()?;
    Ok((certificate.primal, certificate.dual))
}

/// Gives the trainer what dual ascent has found, as if it had made it.
fn end_dual<X: Rows, L: Loss + Clone + Send>(
    py: Python<'_>,
    problem: &Unbounded<X::Scalar, L>,
    data: &Examples<'_, X>,
) -> PyResult<()> {
    Ok(py.detach(|| {
        let mut problem = lock(problem);
        // Where not even its beginning is known, the trainer has all that was learned.
        if let Some(mut dual) = problem.dual.take().and_then(KernelAscent::settled) {
            let w = dual.result(data)?;
            let trainer = &problem.trainer;
            let (loss, params) = (trainer.loss().clone(), *trainer.params());
            let (t, updates) = (trainer.t() + data.len() as u64, trainer.updates());
            problem.trainer = Trainer::resume(w, loss, params, t)?;
            problem.trainer.set_updates(updates);
            problem.frozen = None;
        }
        Ok::<_, Error>(())
    })?)
}

/// Coefficients, vectors x outputs; row numbers; counts.
type Found<'py> =
    (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<u32>>>, Bound<'py, PyArray1<u32>>);

#[pymethods]
impl KernelTrainer {
    #[new]
    fn new(
        n_features: usize,
        sparse: bool,
        classes: usize,
        dtype: &str,
        params: Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let made = Made::new(n_features, sparse, classes, &params)?;
        Ok(KernelTrainer { problem: Problems::make(params.py(), &made, dtype, None)?, made })
    }

    /// One that goes on from the same state.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(KernelTrainer { problem: self.problem.copy(py)?, made: self.made.copy(py) })
    }

    /// Says that precomputed kernel values are those of a positive semi-definite kernel.
    fn assume_positive(&self, py: Python<'_>) {
        locked!(py, &self.problem, |p| p.trainer.hypothesis_mut().assume_positive());
    }

    #[getter]
    fn t(&self, py: Python<'_>) -> u64 {
        locked!(py, &self.problem, |p| p.trainer.t())
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.made.n_features
    }

    /// Whether it was made for sparse rows.
    #[getter]
    fn sparse(&self) -> bool {
        self.made.sparse
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.problem.dtype()
    }

    /// From here on rows are those of one matrix of so many, and their coefficients are recorded.
    /// `keep` is how many bytes of kernel values may be kept for later epochs.
    fn number_rows(
        &self,
        py: Python<'_>,
        n_rows: usize,
        ledger: bool,
        keep: usize,
    ) -> PyResult<()> {
        Ok(locked!(py, &self.problem, |p| {
            let w = p.trainer.hypothesis_mut();
            w.number_rows(n_rows)?;
            if keep > 0 {
                w.keep_kernel(keep);
            }
            if ledger {
                p.trainer.keep_ledger(n_rows);
            }
            Ok::<_, Error>(())
        })?)
    }

    /// Training on these rows is over: forgets what was recorded and kept for it.
    fn forget_ledger(&self, py: Python<'_>) {
        locked!(py, &self.problem, |p| {
            p.trainer.forget_ledger();
            p.trainer.hypothesis_mut().keep_kernel(0);
        });
    }

    /// The matrix is no longer the same.
    fn forget_rows(&self, py: Python<'_>) {
        locked!(py, &self.problem, |p| {
            p.trainer.forget_ledger();
            p.trainer.hypothesis_mut().forget_rows();
        });
    }

    /// Reads every value and index, and says what is wrong with the first that is; returns whether no step on
    /// these rows can overflow, in whatever order.
    fn check(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<bool> {
        with!(&self.problem, &x, |problem, rows| {
            let (norm2, weight) = check(py, &examples(rows, &labels)?)?;
            Ok(py.detach(|| lock(problem).trainer.survives(norm2, weight)))
        })
    }

    /// Visits rows; returns their number, the number of updates, the sum of the losses, and records.
    #[pyo3(signature = (x, labels, order, *, threads = 1, every = None, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn run(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        order: Order<'_>,
        threads: usize,
        every: Option<u64>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            run(py, problem, &data, &order, threads, every, progress.as_ref())
        })
    }

    /// The objective and its dual bound.
    #[pyo3(signature = (x, labels, *, threads = 1))]
    fn evaluate(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        threads: usize,
    ) -> PyResult<(f64, f64)> {
        with!(&self.problem, &x, |problem, rows| {
            evaluate(py, problem, &examples(rows, &labels)?, threads)
        })
    }

    /// From here on `ascend` goes on, until `end_dual`, with kernel values of so many bytes in memory.
    #[pyo3(signature = (x, labels, cache, *, threads = 1))]
    fn begin_dual(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        cache: usize,
        threads: usize,
    ) -> PyResult<()> {
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            let pool = pool(threads)?;
            work(py, silent, |_| {
                let mut problem = lock(problem);
                let dual =
                    pool.install(|| KernelAscent::take_over(&problem.trainer, &data, cache))?;
                problem.dual = Some(dual);
                Ok(None)
            })
        })
    }

    /// A step of dual ascent, if the relative gap is not at most `tol`; the objective, its bound and the
    /// mean loss before it.
    #[pyo3(signature = (x, labels, tol, *, threads = 1))]
    fn ascend(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        labels: Labels<'_>,
        tol: f64,
        threads: usize,
    ) -> PyResult<(f64, f64, f64)> {
        with!(&self.problem, &x, |problem, rows| {
            let data = examples(rows, &labels)?;
            let pool = pool(threads)?;
            let mut last = (f64::NAN, f64::NAN, f64::NAN);
            work(py, silent, |size| {
                let mut problem = lock(problem);
                let Some(dual) = &mut problem.dual else {
                    return Ok(None);
                };
                let found = pool.install(|| dual.advance(&data, tol, size))?;
                if let Some(certificate) = found {
                    last = (certificate.primal, certificate.dual, dual.mean_loss());
                }
                Ok(found.is_none().then_some(size))
            })?;
            Ok(last)
        })
    }

    /// Gives the trainer what dual ascent has found.
    fn end_dual(&self, py: Python<'_>, x: Matrix<'_>, labels: Labels<'_>) -> PyResult<()> {
        with!(&self.problem, &x, |problem, rows| {
            end_dual(py, problem, &examples(rows, &labels)?)
        })
    }

    /// Scores of rows, one after the other.
    #[pyo3(signature = (x, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        with!(&self.problem, &x, |problem, rows| scores(py, problem, &rows, threads))
    }

    /// The coefficients, vectors x outputs, flat; which row each vector is, where it is known; how often
    /// each was added.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Found<'py>> {
        let (coefs, rows, counts) = locked!(py, &self.problem, |p| {
            let w = p.frozen()?;
            Ok::<_, Error>((coefs(&w), w.rows().map(<[u32]>::to_vec), w.counts().to_vec()))
        })?;
        let rows = rows.map(|rows| PyArray1::from_vec(py, rows));
        Ok((PyArray1::from_vec(py, coefs), rows, PyArray1::from_vec(py, counts)))
    }

    /// The vectors in compressed-sparse-row form: indptr, indices, values.
    fn vectors<'py>(&self, py: Python<'py>) -> Arrays<'py> {
        any!(&self.problem, |problem| {
            let vectors = py.detach(|| vectors(lock(problem).trainer.hypothesis()));
            to_arrays(py, vectors)
        })
    }

    /// Everything but ledgers and dual variables, as plain numbers and arrays.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = self.made.parts(py, FORMAT, self.problem.dtype())?;
        any!(&self.problem, |problem| {
            let (total, updates, t, state, rows, vectors) = py.detach(|| {
                let problem = lock(problem);
                let (trainer, w) = (&problem.trainer, problem.trainer.hypothesis());
                let rows: Option<Vec<i64>> =
                    w.rows().map(|rows| rows.iter().map(|&i| i64::from(i)).collect());
                let (updates, t) = (trainer.updates(), trainer.t());
                // Columns are vectors of one 1, which need no features.
                let sparse = self.made.sparse || w.kernel() == Kernel::Precomputed;
                let vectors = Stored::of(w, self.made.n_features, sparse)?;
                Ok::<_, Error>((problem.total, updates, t, w.state(), rows, vectors))
            })?;
            set_totals(&parts, &total)?;
            parts.set_item("updates", updates)?;
            parts.set_item("t", t)?;
            parts.set_item("v", PyArray1::from_vec(py, state.v))?;
            parts.set_item("u", PyArray1::from_vec(py, state.u))?;
            parts.set_item("counts", PyArray1::from_vec(py, state.counts))?;
            parts.set_item("rows", rows.map(|rows| PyArray1::from_vec(py, rows)))?;
            parts.set_item("norms", PyArray1::from_vec(py, state.norms))?;
            vectors.set(&parts)?;
            for (name, value) in [
                ("a", state.a),
                ("norm2", state.norm2),
                ("sum_a", state.sum_a),
                ("sum_q", state.sum_q),
            ] {
                parts.set_item(name, value)?;
            }
        });
        Ok(parts)
    }

    /// Restores what `parts` gave.
    #[staticmethod]
    fn from_parts(parts: Bound<'_, PyDict>) -> PyResult<Self> {
        let (made, dtype) = Made::from_parts(&parts, FORMAT)?;
        let problem = Problems::make(parts.py(), &made, &dtype, Some(&parts))?;
        Ok(KernelTrainer { problem, made })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.getattr("from_parts")?, (parts,)))
    }
}

/// Of what `parts` gives; a change of its keys' meaning gets a new number.
const FORMAT: u32 = 4;
