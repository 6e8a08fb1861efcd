//! A model as the entries and tensors of a file: those of Python's estimator in the state that it predicts from.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::file::{Content, FORMAT, Numbers, Tensor};
use super::state::{BUDGETED, EXPANSION, Kept, LINEAR, State, Stored};
use super::{Label, Model, Net, Scorer};
use crate::error::Error;
use crate::frozen::Frozen;
use crate::hypothesis::Hypothesis;
use crate::kernel::Kernel;
use crate::ledger::Certificate;
use crate::memory;
use crate::scalar::Scalar;

impl State {
    /// Of a model that was trained here; Python's estimator has these parameters.
    pub(super) fn of_fit(
        class: &str,
        labels: &[Label],
        n_features: usize,
        params: Value,
        mut trainer: Kept,
        Certificate { primal, dual }: Certificate,
    ) -> Self {
        let (dtype, values): (&str, Vec<Value>) = match labels[0] {
            Label::Bool(_) => ("bool", labels.iter().map(Label::json).collect()),
            Label::Int(_) => ("int64", labels.iter().map(Label::json).collect()),
            Label::Float(_) => ("float64", labels.iter().map(Label::json).collect()),
            Label::Text(_) => ("str", labels.iter().map(Label::json).collect()),
        };
        let gamma = params.get("gamma").cloned();
        let given: Vec<String> =
            params.as_object().map_or_else(Vec::new, |params| params.keys().cloned().collect());
        let mut extra = json!({});
        if let Some(gamma) = gamma {
            extend(
                &mut extra,
                json!({ "gamma": gamma, "records": [], "path": {}, "risen": trainer.constant > 0.0 }),
            );
        }
        let entries = json!({
            "format": FORMAT, "version": env!("CARGO_PKG_VERSION"), "class": class, "params": params, "given": given,
            "classes": { "dtype": dtype, "values": values }, "n_features": n_features, "feature_names": null,
            "loss_curve": [], "objective": float(primal), "dual_objective": float(dual), "seed": 0, "epoch": 0,
            "stream": null, "decided": {}, "extra": extra, "calibration": null, "steps": [], "pipeline": null,
        });
        let entries = if let Value::Object(entries) = entries { entries } else { Map::new() };
        trainer.told.insert("t".into(), json!(trainer.t));
        State { class: class.to_owned(), entries, tensors: BTreeMap::new(), trainer }
    }
}

/// A number that may be none: kernels that are not positive have no norm.
fn float(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!({ "float": "nan" }) }
}

/// The bytes of a file with this model.
pub(super) fn content(model: &Model) -> Result<Vec<u8>, Error> {
    let mut tensors = model.state.tensors.clone();
    let trainer = match &model.net {
        Net::F32(scorer) => trainer_of(&model.state.trainer, scorer, &mut tensors)?,
        Net::F64(scorer) => trainer_of(&model.state.trainer, scorer, &mut tensors)?,
    };
    let mut entries = model.state.entries.clone();
    entries.insert("trainer".into(), trainer);
    Content::to_bytes(&Value::Object(entries).to_string(), &tensors)
}

/// What names a vector of numbers that becomes a tensor.
fn put(tensors: &mut BTreeMap<String, Tensor>, name: &str, numbers: Numbers, len: usize) -> Value {
    let name = format!("trainer.{name}");
    tensors.insert(name.clone(), Tensor { shape: vec![len], numbers });
    json!({ "tensor": name })
}

/// The entries of a trainer that has come to this model.
fn trainer_of<S: Stored>(
    kept: &Kept,
    Scorer { frozen, .. }: &Scorer<S>,
    tensors: &mut BTreeMap<String, Tensor>,
) -> Result<Value, Error> {
    let mut scalars = |name: &str, numbers: Vec<S>| {
        let len = numbers.len();
        put(tensors, name, S::put(numbers), len)
    };
    match frozen {
        Frozen::Linear(w) => {
            // Of intercepts that are products with the constant feature.
            let weight = |b: f64| if kept.constant > 0.0 { b / kept.constant } else { 0.0 };
            let mut problem =
                json!({ "n_features": w.n_features(), "v": scalars("v", w.weights()) });
            let b: Vec<f64> = w.intercepts().into_iter().map(weight).collect();
            let outputs = b.len();
            let own = json!({
                "b": put(tensors, "b", Numbers::F64(b), outputs),
                "u": put(tensors, "u", Numbers::F64(Vec::new()), 0),
                "ub": put(tensors, "ub", Numbers::F64(Vec::new()), 0),
                "constant": kept.constant, "a": 1.0, "norm2": float(w.norm2_afresh()), "sum_a": 0.0, "sum_q": 0.0,
                "flights": [], "regret": null,
            });
            extend(&mut problem, own);
            Ok(json!({
                "dtype": S::NAME, "targets": kept.targets, "format": LINEAR, "t": kept.t, "problems": [problem],
                "params": kept.params,
            }))
        }
        Frozen::Kernel(w) => {
            let state = w.state();
            let n = w.n_vectors();
            let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
            for slot in 0..n {
                w.for_each(slot, |j, x| {
                    indices.push(j as i64);
                    values.push(x);
                });
                indptr.push(indices.len() as i64);
            }
            let columns = w.kernel() == Kernel::Precomputed;
            if !(kept.sparse || columns) {
                values = memory::zeros("the support vectors", &[n, w.n_features()])?;
                for (slot, features) in values.chunks_mut(w.n_features()).enumerate() {
                    w.for_each(slot, |j, x| features[j] = x);
                }
            }
            let mut trainer = json!({
                "dtype": S::NAME, "n_features": w.n_features(), "sparse": kept.sparse, "classes": kept.classes,
                "steps": 0, "examples": 0, "mistakes": 0, "degradation": 0.0, "gradient_error": 0.0, "updates": 0,
                "t": kept.t, "a": state.scale.a, "norm2": float(state.scale.norm2), "sum_a": 0.0, "sum_q": 0.0,
                "params": kept.params, "indptr": null, "indices": null, "values": scalars("values", values),
            });
            let own = if kept.budget {
                // All of them, of however many outputs.
                let mut v = memory::zeros("the coefficients", &[n, w.outputs()])?;
                for (slot, own) in v.chunks_mut(w.outputs()).enumerate() {
                    w.coef(slot, own);
                    own.iter_mut().for_each(|coef| *coef /= state.scale.a);
                }
                let norms = wide(&state.norms);
                let (n_coefs, n) = (v.len(), norms.len());
                json!({
                    "format": BUDGETED, "added": n, "evicted": 0, "norm2": float(f64::NAN),
                    "v": put(tensors, "v", Numbers::F64(v), n_coefs),
                    "norms": put(tensors, "norms", Numbers::F64(norms), n),
                    "born": put(tensors, "born", Numbers::U64((0..n as u64).collect()), n),
                })
            } else {
                let rows = w.rows().map(|rows| rows.iter().map(|&i| i64::from(i)).collect());
                let (n_ends, n_coefs) = (state.ends.len(), state.outputs.len());
                json!({
                    "format": EXPANSION,
                    "v": scalars("v", state.v),
                    "norms": scalars("norms", state.norms),
                    "ends": put(tensors, "ends", Numbers::U64(state.ends), n_ends),
                    "outputs": put(tensors, "outputs", Numbers::U32(state.outputs), n_coefs),
                    "rows": rows.map(|rows| put(tensors, "rows", Numbers::I64(rows), n)),
                    "counts": put(tensors, "counts", Numbers::U32(state.counts), n),
                })
            };
            extend(&mut trainer, own);
            extend(&mut trainer, json!({ "u": put(tensors, "u", Numbers::F64(Vec::new()), 0) }));
            if kept.sparse || columns {
                let (n_bounds, n_indices) = (indptr.len(), indices.len());
                extend(
                    &mut trainer,
                    json!({
                        "indptr": put(tensors, "indptr", Numbers::I64(indptr), n_bounds),
                        "indices": put(tensors, "indices", Numbers::I64(indices), n_indices),
                    }),
                );
            }
            Ok(trainer)
        }
    }
}

fn wide<S: Scalar>(numbers: &[S]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}

/// Gives an object the entries of another.
fn extend(object: &mut Value, other: Value) {
    if let (Value::Object(object), Value::Object(other)) = (object, other) {
        object.extend(other);
    }
}
