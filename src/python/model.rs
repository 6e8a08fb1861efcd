//! `Model`: a model file at work; and model files as texts and arrays.

use numpy::{
    PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::examples::{Examples, View};
use super::{Pool, first_of, in_pieces};
use crate::memory;
use crate::model::{self, Numbers, Rows, Tensor};

/// What a model file holds, and nothing that could train.
#[pyclass(module = "pegasos._core", frozen)]
pub(super) struct Model(crate::Model);

#[pymethods]
impl Model {
    /// The model in a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Self> {
        Ok(Model(py.detach(|| crate::Model::load(path))?))
    }

    /// The model in the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let bytes = bytes.as_bytes();
        Ok(Model(py.detach(|| crate::Model::from_bytes(bytes))?))
    }

    /// The bytes of a file with it.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// A header for C with it.
    fn to_c(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        Ok(py.detach(|| self.0.to_c(name))?)
    }

    /// What the file says of the estimator, in JSON; of the trainer only what it tells of itself.
    #[getter]
    fn text(&self) -> String {
        self.0.text()
    }

    /// How many scores a row has.
    #[getter]
    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    /// How many support vectors there are; `None` of linear models.
    #[getter]
    fn n_vectors(&self) -> Option<usize> {
        self.0.n_vectors()
    }

    /// How many weights of a linear model are not 0; `None` of others.
    #[getter]
    fn n_nonzero(&self) -> Option<usize> {
        self.0.n_nonzero()
    }

    #[getter]
    fn takes_texts(&self) -> bool {
        self.0.takes_texts()
    }

    #[getter]
    fn is_bounded(&self) -> bool {
        self.0.is_bounded()
    }

    #[getter]
    fn has_probabilities(&self) -> bool {
        self.0.has_probabilities()
    }

    /// The scores of all problems, row after row.
    #[pyo3(signature = (examples, *, threads = 1))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        examples: &Bound<'py, Examples>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let borrowed = examples.get().borrow(py)?;
        let rows = match borrowed.view(true)? {
            View::F32(examples) => Rows::F32(*examples.rows()),
            View::F64(examples) => Rows::F64(*examples.rows()),
        };
        self.scores_of(py, &rows, threads)
    }

    /// The scores of texts, whose words are hashed.
    #[pyo3(signature = (texts, *, threads = 1))]
    fn scores_of_texts<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.scores_of(py, &Rows::from(&texts[..]), threads)
    }

    /// The numbers of the classes, given all scores.
    fn codes<'py>(
        &self,
        py: Python<'py>,
        scores: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<usize>>> {
        Ok(PyArray1::from_vec(py, self.0.codes(scores.as_slice()?)))
    }

    /// The scores of classes, given all scores: votes where they are of pairs.
    fn of_classes<'py>(
        &self,
        py: Python<'py>,
        scores: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(PyArray1::from_vec(py, self.0.of_classes(scores.as_slice()?.to_vec())))
    }

    /// The probabilities of the classes, given all scores.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        scores: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(PyArray1::from_vec(py, self.0.probabilities_of(scores.as_slice()?)?))
    }
}

impl Model {
    fn scores_of<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows<'_>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (n, outputs) = (rows.n_rows(), self.0.outputs());
        let mut scores = memory::zeros("the scores", &[n, outputs])?;
        let pool = Pool::of_rows(threads, n, self.0.cost())?;
        in_pieces(py, first_of(self.0.cost()), n, &mut |piece| {
            let out = &mut scores[piece.start * outputs..piece.end * outputs];
            pool.run(|| self.0.write_scores(rows, piece, out))
        })?;
        Ok(PyArray1::from_vec(py, scores))
    }
}

/// The text of a model file, and its tensors as arrays.
#[pyfunction]
pub(super) fn read_model<'py>(
    py: Python<'py>,
    path: std::path::PathBuf,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let content = py.detach(|| model::Content::read(&path))?;
    let tensors = PyDict::new(py);
    for (name, Tensor { shape, numbers }) in content.tensors {
        macro_rules! array {
            ($($kind:ident),*) => { match numbers {
                $(Numbers::$kind(numbers) => PyArray1::from_vec(py, numbers).reshape(shape)?.into_any(),)*
            } };
        }
        tensors.set_item(name, array!(F32, F64, I64, U32, U64))?;
    }
    Ok((content.text, tensors))
}

/// The bytes of a model file with these entries, a JSON object, and tensors.
#[pyfunction]
pub(super) fn model_bytes<'py>(
    py: Python<'py>,
    entries: &str,
    tensors: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let tensors = tensors.iter().map(|(name, array)| Ok((name.extract()?, tensor(&array)?)));
    let tensors = tensors.collect::<PyResult<_>>()?;
    let bytes = py.detach(|| model::Content::to_bytes(entries, &tensors))?;
    Ok(PyBytes::new(py, &bytes))
}

fn tensor(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    macro_rules! of {
        ($($kind:ident, $of:ty);*) => { $(
            if let Ok(array) = array.cast::<PyArrayDyn<$of>>() {
                let array: PyReadonlyArrayDyn<'_, $of> = array.readonly();
                let numbers = Numbers::$kind(array.as_slice()?.to_vec());
                return Ok(Tensor { shape: array.shape().to_vec(), numbers });
            }
        )* };
    }
    of!(F32, f32; F64, f64; I64, i64; U32, u32; U64, u64);
    Err(PyTypeError::new_err(format!("a tensor must be an array of numbers, got {array:?}")))
}
