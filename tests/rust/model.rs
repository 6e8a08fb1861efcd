//! Models: the same to the last bit from a file, scores and probabilities as they are defined, and rows that do not fit.

use std::collections::BTreeMap;

use pegasos::{AnyLoss, Classifier, Csr, Dense, Error, ErrorKind, Kernel, Label, Model, Policy};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const N: usize = 60;
const D: usize = 3;

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Points of the plane, a third feature that is mostly 0, and the class of each: a sector.
fn points(classes: usize) -> (Vec<f64>, Vec<i64>) {
    let mut random = Pcg64::new(7, 1);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..N {
        let class = i % classes;
        let angle =
            (class as f64 + 0.8 * uniform(&mut random)) * std::f64::consts::TAU / classes as f64;
        let third = if i % 5 == 0 { uniform(&mut random) } else { 0.0 };
        x.extend([angle.cos(), angle.sin(), third]);
        y.push(class as i64 * 10 - 10);
    }
    (x, y)
}

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

#[test]
fn labels_must_be_as_many_as_rows() {
    let x = Dense::new(&[1.0, 2.0, 3.0], 3, 1).unwrap();
    let error = Classifier::default().fit(x, &["a", "b"]).unwrap_err();
    assert_eq!(error.to_string(), "labels must have 3 entries, got 2");
}

/// The same rows, without the zeros.
fn stored(x: &[f64]) -> (Vec<i64>, Vec<i64>, Vec<f64>) {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in x.chunks(D) {
        for (j, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            indices.push(j as i64);
            values.push(*x);
        }
        indptr.push(values.len() as i64);
    }
    (indptr, indices, values)
}

fn kernels() -> [Kernel; 3] {
    [Kernel::Rbf { gamma: 0.7 }, Kernel::Linear, Kernel::Poly { gamma: 0.5, coef0: 1.0, degree: 3 }]
}

/// Every way of training, by name.
fn classifiers() -> Vec<(String, Classifier)> {
    let mut all = Vec::new();
    for loss in [AnyLoss::SquaredHinge, AnyLoss::Hinge, AnyLoss::Logistic] {
        all.push((format!("{loss:?}"), Classifier { loss, ..Classifier::default() }));
    }
    all.push(("no intercept".into(), Classifier { intercept: false, ..Classifier::default() }));
    for kernel in kernels() {
        all.push((format!("{kernel:?}"), Classifier::with_kernel(kernel)));
        let budget = Some(12);
        all.push((
            format!("{kernel:?} on a budget"),
            Classifier { budget, ..Classifier::with_kernel(kernel) },
        ));
    }
    all.push((
        "rbf, no intercept".into(),
        Classifier { intercept: false, ..Classifier::with_kernel(Kernel::Rbf { gamma: 2.0 }) },
    ));
    all
}

fn bits(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|score| score.to_bits()).collect()
}

/// That a model and what its file holds give the same bits for these rows; and the model that was in the file.
fn again(name: &str, model: &Model, x: Dense<'_, f64>) -> Model {
    let bytes = model.to_bytes().expect(name);
    let again = Model::from_bytes(&bytes).expect(name);
    assert_eq!(bits(&again.scores(x).expect(name)), bits(&model.scores(x).expect(name)), "{name}");
    assert_eq!(again.labels(), model.labels(), "{name}");
    assert_eq!(again.predict(x).expect(name), model.predict(x).expect(name), "{name}");
    assert_eq!(again.has_probabilities(), model.has_probabilities(), "{name}");
    assert_eq!(again.n_vectors(), model.n_vectors(), "{name}");
    assert_eq!(again.class(), model.class(), "{name}");
    // What is written again is the same file.
    assert!(again.to_bytes().expect(name) == bytes, "{name}");
    again
}

#[test]
fn the_same_bits_from_a_file() {
    for classes in [2, 3, 5, 9] {
        let (x, y) = points(classes);
        let dense = Dense::new(&x, N, D).unwrap();
        let single = narrow(&x);
        let (indptr, indices, values) = stored(&x);
        let sparse = Csr::new(&indptr, &indices, &values, D).unwrap();
        for (name, classifier) in classifiers() {
            let name = format!("{name}, {classes} classes");
            let model = again(&name, &classifier.fit(dense, &y).expect(&name), dense);
            assert!(model.accuracy(dense, &y).unwrap() > 0.5, "{name}");
            again(
                &name,
                &classifier.fit(Dense::new(&single, N, D).unwrap(), &y).expect(&name),
                dense,
            );
            let of_sparse = again(&name, &classifier.fit(sparse, &y).expect(&name), dense);
            // However rows are given, they are the same.
            let (one, other) =
                (of_sparse.scores(sparse).unwrap(), of_sparse.scores(dense).unwrap());
            assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9), "{name}");
            if model.has_probabilities() {
                let probabilities = model.probabilities(dense).unwrap();
                for row in probabilities.chunks(classes) {
                    assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{name}: {row:?}");
                }
            }
            assert_eq!(model.has_probabilities(), name.starts_with("Logistic"), "{name}");
        }
    }
}

#[test]
fn labels_of_each_kind() {
    let (x, y) = points(2);
    let x = Dense::new(&x, N, D).unwrap();
    let kinds: [[Label; 2]; 6] = [
        [Label::Int(i64::MIN), Label::Int(i64::MAX)],
        [false.into(), true.into()],
        ["".into(), "a\0\"\\\u{1f600}".into()],
        [Label::Float(-1e300), Label::Float(0.1)],
        ["no".into(), "yes".into()],
        [Label::Float(1.0), Label::Float(2.0)],
    ];
    for kind in kinds {
        let labels: Vec<Label> = y.iter().map(|y| kind[usize::from(*y == 0)].clone()).collect();
        let model = Classifier::default().fit(x, &labels).unwrap();
        assert_eq!(again(&format!("{kind:?}"), &model, x).labels(), kind);
        assert!(model.accuracy(x, &labels).unwrap() > 0.9);
    }
    for labels in [vec![Label::Int(1); N], Vec::new()] {
        assert!(Classifier::default().fit(x, &labels).is_err());
    }
    let mixed: Vec<Label> =
        (0..N).map(|i| if i % 2 == 0 { 1.into() } else { "one".into() }).collect();
    assert!(Classifier::default().fit(x, &mixed).is_err());
}

/// Both zeros are one class, and what is no number is none.
#[test]
fn labels_that_are_floats() {
    let x = Dense::new(&[-3.0, -1.0, 1.0, 3.0], 4, 1).unwrap();
    let labels = [-0.0, 0.0, 1.0, 1.0].map(Label::Float);
    for classifier in [
        Classifier::default(),
        Classifier::with_kernel(Kernel::Rbf { gamma: 0.5 }),
        Classifier { budget: Some(3), ..Classifier::with_kernel(Kernel::Rbf { gamma: 0.5 }) },
    ] {
        let model = classifier.fit(x, &labels).unwrap();
        assert_eq!(model.labels(), [Label::Float(0.0), Label::Float(1.0)]);
        assert_eq!(model.labels()[0].to_string(), "0.0");
        assert_eq!(model.accuracy(x, &labels).unwrap(), 1.0);
        again("floats", &model, x);
    }
    for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for labels in [[bad, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, bad], [bad; 4]] {
            let error = Classifier::default().fit(x, &labels.map(Label::Float)).unwrap_err();
            assert_eq!(error.to_string(), format!("labels must be finite numbers, got {bad:?}"));
        }
    }
    assert!(Classifier::default().fit(x, &[-0.0, 0.0, 0.0, -0.0]).is_err());
    let model = Classifier::default().fit(x, &[7_u32, 7, u32::MAX, 7]).unwrap();
    assert_eq!(model.labels(), [Label::Int(7), Label::Int(u32::MAX.into())]);
    let model = Classifier::default().fit(x, &[0_u8, 0, u8::MAX, u8::MAX]).unwrap();
    assert_eq!(model.labels(), [Label::Int(0), Label::Int(255)]);
    let model = Classifier::default().fit(x, &[-0.5_f32, -0.5, 0.5, 0.5]).unwrap();
    assert_eq!(model.labels(), [Label::Float(-0.5), Label::Float(0.5)]);
}

#[test]
fn a_tolerance_below_0_is_refused() {
    let (x, y) = points(3);
    let x = Dense::new(&x, N, D).unwrap();
    for (name, classifier) in classifiers() {
        for tol in [f64::NAN, -1e-300] {
            let policy = pegasos::Policy { tol: Some(tol), ..classifier.policy };
            let error = Classifier { policy, ..classifier.clone() }.fit(x, &y).unwrap_err();
            let text = format!("tol must be >= 0, got {tol:?}");
            assert_eq!(error.to_string(), text, "{name}");
        }
    }
}

pub(super) type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// What a file holds: its text, and its tensors as bytes.
pub(super) fn opened(bytes: &[u8]) -> (Value, Tensors) {
    let (_, metadata) = SafeTensors::read_metadata(bytes).unwrap();
    let text = &metadata.metadata().as_ref().unwrap()["pegasos"];
    let file = SafeTensors::deserialize(bytes).unwrap();
    let tensor = |view: TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    let tensors = file.tensors().into_iter().map(|(name, view)| (name, tensor(view))).collect();
    (serde_json::from_str(text).unwrap(), tensors)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file of this text and these tensors, with checksums that are right.
pub(super) fn sealed(mut state: Value, tensors: &Tensors) -> Vec<u8> {
    let sums: BTreeMap<_, _> =
        tensors.iter().map(|(name, (.., data))| (name, hexadecimal(data))).collect();
    state.as_object_mut().unwrap().remove("sha256");
    state["checksums"] = json!(sums);
    let text = state.to_string();
    sealed_text(text.strip_suffix('}').unwrap(), tensors)
}

pub(super) fn sealed_text(open: &str, tensors: &Tensors) -> Vec<u8> {
    let text = format!("{open}, \"sha256\": \"{}\"}}", hexadecimal(format!("{open}}}").as_bytes()));
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    safetensors::serialize(views, Some([("pegasos".to_owned(), text)].into())).unwrap()
}

/// Of a kernel with k(x, x) < 0 a budget keeps no vector, and there is nothing to refit.
#[test]
fn a_budget_may_stay_empty() {
    let (x, y) = points(3);
    let x = Dense::new(&x, N, D).unwrap();
    let kernel = Kernel::Sigmoid { gamma: 0.1, coef0: -0.5 };
    let machine = Classifier { budget: Some(5), ..Classifier::with_kernel(kernel) };
    let model = machine.fit(x, &y).unwrap();
    assert_eq!(model.n_vectors(), Some(0));
    let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(again.scores(x).unwrap(), model.scores(x).unwrap());
}

/// A small file of each family.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let (x, y) = points(3);
    let x = Dense::new(&x, N, D).unwrap();
    let rbf = Classifier::with_kernel(Kernel::Rbf { gamma: 0.7 });
    let file = |classifier: &Classifier| classifier.fit(x, &y).unwrap().to_bytes().unwrap();
    vec![
        ("linear", file(&Classifier::default())),
        ("exact", file(&rbf)),
        ("budget", file(&Classifier { budget: Some(5), ..rbf })),
    ]
}

pub(super) fn refused(name: &str, bytes: &[u8]) -> String {
    match Model::from_bytes(bytes) {
        Ok(_) => panic!("{name} is read"),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::File { .. }), "{name}: {error:?}");
            error.to_string()
        }
    }
}

fn reals(tensors: &Tensors, name: &str) -> Vec<f64> {
    let (dtype, _, data) = &tensors[name];
    match dtype {
        Dtype::F64 => data.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect(),
        Dtype::F32 => data.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x).into()).collect(),
        other => panic!("{name} is of {other:?}"),
    }
}

/// Scores are sums over what a file holds, as anybody would write them down.
#[test]
fn scores_by_definition() {
    for (classes, outputs) in [(2, 1), (3, 3), (4, 6)] {
        let (x, y) = points(classes);
        let rows = Dense::new(&x, N, D).unwrap();
        for (name, classifier) in classifiers() {
            let model = classifier.fit(rows, &y).unwrap();
            let (state, tensors) = opened(&model.to_bytes().unwrap());
            let trainer = &state["trainer"];
            let v = reals(&tensors, "trainer.v");
            let mut want = Vec::new();
            for row in x.chunks(D) {
                let dot = |other: &[f64]| row.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
                let Some(kernel) = classifier.kernel else {
                    let b = reals(&tensors, "trainer.b");
                    want.extend(v.chunks(D).zip(b).map(|(w, b)| {
                        dot(w) + b * trainer["problems"][0]["constant"].as_f64().unwrap()
                    }));
                    continue;
                };
                let k = |z: &[f64]| match kernel {
                    Kernel::Rbf { gamma } => {
                        let square = row.iter().zip(z).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
                        (-gamma * square).exp()
                    }
                    Kernel::Poly { gamma, coef0, degree } => {
                        (gamma * dot(z) + coef0).powi(degree as i32)
                    }
                    _ => dot(z),
                };
                let constant = trainer["params"]["constant"].as_f64().unwrap();
                let mut scores = vec![0.0; outputs];
                let values = reals(&tensors, "trainer.values");
                for (z, v) in values.chunks(D).zip(v.chunks(outputs)) {
                    for (score, v) in scores.iter_mut().zip(v) {
                        *score += trainer["a"].as_f64().unwrap() * v * (k(z) + constant * constant);
                    }
                }
                want.extend(scores);
            }
            let scores = model.scores(rows).unwrap();
            assert_eq!(scores.len(), want.len(), "{name}");
            for (score, want) in scores.iter().zip(&want) {
                assert!(
                    (score - want).abs() <= 1e-9 * (1.0 + want.abs()),
                    "{name}: {score}, {want}"
                );
            }
            let predicted = model.predict(rows).unwrap();
            for (label, scores) in predicted.iter().zip(scores.chunks(model.outputs())) {
                let code = voted(scores, classes, classifier.kernel.is_some());
                assert_eq!(**label, model.labels()[code], "{name}");
            }
        }
    }
}

/// The class that scores speak for: of pairs by votes, and by sums of scores among equals.
fn voted(scores: &[f64], classes: usize, pairs: bool) -> usize {
    if classes == 2 {
        return usize::from(scores[0] > 0.0);
    }
    let mut ranks = vec![(0, 0.0); classes];
    match pairs {
        false => ranks.iter_mut().zip(scores).for_each(|(rank, score)| rank.1 = *score),
        true => {
            let all = (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j)));
            for ((i, j), score) in all.zip(scores) {
                ranks[if *score >= 0.0 { i } else { j }].0 += 1;
                ranks[i].1 += score;
                ranks[j].1 -= score;
            }
        }
    }
    let best = |a: &usize, b: &usize| ranks[*a].partial_cmp(&ranks[*b]).unwrap();
    (0..classes).max_by(best).unwrap()
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    for (name, bytes) in files() {
        let model = Model::from_bytes(&bytes).unwrap();
        let said = |error: Error| error.to_string();
        let four = [0.0; 8];
        let error = model.scores(Dense::new(&four, 2, 4).unwrap()).map_err(said).unwrap_err();
        assert!(error.contains('3') && error.contains('4'), "{name}: {error}");
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut rows = vec![0.5; 3 * 2000];
            rows[3 * 1500 + 1] = bad;
            let error =
                model.predict(Dense::new(&rows, 2000, 3).unwrap()).map_err(said).unwrap_err();
            assert!(error.contains("row 1500, column 1"), "{name}: {error}");
        }
        assert!(model.predict(Dense::<f64>::new(&[], 0, 3).unwrap()).unwrap().is_empty(), "{name}");
        for index in [-1, 3, i64::MAX, i64::MIN] {
            let (indptr, indices, values) = ([0, 1, 2], [0, index], [1.0, 1.0]);
            let error = Csr::new(&indptr, &indices, &values, 3).and_then(|x| model.scores(x));
            let error = error.map_err(said).unwrap_err();
            assert!(error.contains(&index.to_string()), "{name}: {error}");
        }
        let huge = [1e300, -1e300, 1e300];
        if let Ok(scores) = model.scores(Dense::new(&huge, 1, 3).unwrap()) {
            assert!(scores.iter().all(|score| score.is_finite()), "{name}: {scores:?}");
        }
        assert!(model.accuracy(Dense::new(&huge, 1, 3).unwrap(), &[1, 2]).is_err(), "{name}");
    }
}

/// A file with a calibration: maps of each of its scores, or one of all.
fn calibrated(bytes: &[u8], method: &str, parts: &[(Vec<usize>, Vec<f64>)]) -> Vec<u8> {
    let (mut state, mut tensors) = opened(bytes);
    let mut names = Vec::new();
    for (i, (shape, numbers)) in parts.iter().enumerate() {
        let data = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors.insert(format!("calibration.{i}"), (Dtype::F64, shape.clone(), data));
        names.push(json!({ "tensor": format!("calibration.{i}") }));
    }
    state["calibration"] = json!({ "map": { "method": method, "parts": names } });
    sealed(state, &tensors)
}

/// Probabilities of pairs are those whose disagreement with all pairs is least.
#[test]
fn coupled_probabilities_disagree_least() {
    let (x, y) = points(4);
    let rows = Dense::new(&x, N, D).unwrap();
    let bytes = Classifier::with_kernel(Kernel::Rbf { gamma: 0.7 })
        .fit(rows, &y)
        .unwrap()
        .to_bytes()
        .unwrap();
    let parts: Vec<_> =
        (0..6).map(|i| (vec![2], vec![-1.0 - 0.1 * f64::from(i), 0.05 * f64::from(i)])).collect();
    let model = Model::from_bytes(&calibrated(&bytes, "sigmoid", &parts)).unwrap();
    let (scores, probabilities) = (model.scores(rows).unwrap(), model.probabilities(rows).unwrap());
    for (scores, found) in scores.chunks(6).zip(probabilities.chunks(4)) {
        let mut pairs = Vec::new();
        let all = (0..4).flat_map(|i| (i + 1..4).map(move |j| (i, j)));
        for (((i, j), score), (_, map)) in all.zip(scores).zip(&parts) {
            pairs.push((i, j, 1.0 / (1.0 + (map[0] * score + map[1]).exp())));
        }
        let disagreement = |p: &[f64]| -> f64 {
            pairs.iter().map(|(i, j, r)| (r * p[*j] - (1.0 - r) * p[*i]).powi(2)).sum()
        };
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && found.iter().all(|p| *p >= 0.0));
        // Down the gradient, from where all are equal, and onto the simplex by pushing its face.
        let mut p = [0.25; 4];
        for _ in 0..20_000 {
            let mut gradient = [0.0; 4];
            for (i, j, r) in &pairs {
                let off = r * p[*j] - (1.0 - r) * p[*i];
                gradient[*j] += off * r;
                gradient[*i] -= off * (1.0 - r);
            }
            let mean = gradient.iter().sum::<f64>() / 4.0;
            p.iter_mut().zip(gradient).for_each(|(p, g)| *p -= 0.4 * (g - mean));
        }
        for (found, p) in found.iter().zip(&p) {
            assert!((found - p).abs() < 1e-6, "{found}, {p}");
        }
        assert!(disagreement(found) <= disagreement(&p) + 1e-12);
    }
}

#[test]
fn calibrations_that_do_not_belong_are_refused() {
    let (x, y) = points(2);
    let rows = Dense::new(&x, N, D).unwrap();
    let bytes = Classifier::default().fit(rows, &y).unwrap().to_bytes().unwrap();
    let isotonic = |t: [f64; 2], v: [f64; 2]| (vec![2, 2], vec![t[0], t[1], v[0], v[1]]);
    for (method, parts) in [
        ("sigmoid", vec![]),
        ("sigmoid", vec![(vec![2], vec![1.0, 2.0]); 2]),
        ("sigmoid", vec![(vec![3], vec![1.0, 2.0, 3.0])]),
        ("temperature", vec![(vec![2], vec![1.0, 2.0])]),
        ("exec", vec![(vec![2], vec![1.0, 2.0])]),
        ("isotonic", vec![isotonic([1.0, 0.0], [0.0, 1.0])]),
        ("isotonic", vec![isotonic([0.0, 1.0], [1.0, 0.0])]),
        ("isotonic", vec![isotonic([0.0, 1.0], [0.0, 1.5])]),
        ("isotonic", vec![isotonic([-1.7e308, 1.7e308], [0.0, 1.0])]),
        ("isotonic", vec![(vec![2, 0], vec![])]),
    ] {
        refused(&format!("{method} {parts:?}"), &calibrated(&bytes, method, &parts));
    }
    for (method, part) in [
        ("isotonic", isotonic([-0.5, 0.5], [0.25, 0.75])),
        ("sigmoid", (vec![2], vec![-1e308, 1e308])),
        ("temperature", (vec![1], vec![1e308])),
    ] {
        let model = Model::from_bytes(&calibrated(&bytes, method, &[part])).unwrap();
        for row in model.probabilities(rows).unwrap().chunks(2) {
            assert!((row[0] + row[1] - 1.0).abs() < 1e-12 && row[0] >= 0.0, "{method}: {row:?}");
        }
    }
    let plain = Model::from_bytes(&bytes).unwrap();
    assert!(plain.probabilities(rows).unwrap_err().to_string().contains("calibrated"));
}

/// A kernel whose values are computed before is that kernel: the same machine, to the same gap.
#[test]
fn precomputed_kernels_are_solved() {
    for classes in [2, 3] {
        let (x, y) = points(classes);
        let square =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let row = |i: usize| &x[i * D..(i + 1) * D];
        let value = |k: usize| (-0.7 * square(row(k / N), row(k % N))).exp();
        let values: Vec<f64> = (0..N * N).map(value).collect();
        let (rows, values) = (Dense::new(&x, N, D).unwrap(), Dense::new(&values, N, N).unwrap());
        let policy = Policy { tol: Some(1e-9), max_epochs: 1, ..Policy::default() };
        let of = |kernel| Classifier { policy, ..Classifier::with_kernel(kernel) };
        let want = of(Kernel::Rbf { gamma: 0.7 }).fit(rows, &y).unwrap().scores(rows).unwrap();
        let got = of(Kernel::Precomputed).fit(values, &y).unwrap().scores(values).unwrap();
        let apart = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-3, "{classes}: {apart}");
    }
}

/// The files `tests/models/crate-*`, from which the tests in Python go on, hold what the crate trains still;
/// `PEGASOS_WRITE_MODELS=1 cargo test --test rust model::files_for_python` writes them anew.
#[test]
fn files_for_python_are_what_is_trained() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let (x, _) = points(3);
    let words: Vec<&str> = (0..N).map(|i| ["high", "low", "mid"][i % 3]).collect();
    let single = narrow(&x);
    let policy = Policy { seed: 1, ..Policy::default() };
    // So near the optimum that where a fit ends, which roundings decide, is felt no more.
    let policy = Policy { tol: Some(1e-12), ..policy };
    let linear = Classifier { policy, ..Classifier::default() };
    let rbf = Classifier::with_kernel(Kernel::Rbf { gamma: 0.7 });
    let budget = Classifier { budget: Some(12), ..rbf.clone() };
    let dense = Dense::new(&x, N, D).unwrap();
    // The instructions of a processor have a say in the last bits, which decide between two mergers.
    for (name, model, near) in [
        ("linear", linear.fit(dense, &words), 1e-6),
        ("kernel", rbf.fit(Dense::new(&single, N, D).unwrap(), &words), 1e-2),
        ("budget", budget.fit(dense, &words), f64::INFINITY),
    ] {
        let (model, path) = (model.unwrap(), folder.join(format!("crate-{name}.safetensors")));
        if std::env::var_os("PEGASOS_WRITE_MODELS").is_some() {
            model.save(&path).unwrap();
        }
        let stored = Model::load(&path).unwrap();
        assert_eq!((stored.labels(), stored.class()), (model.labels(), model.class()));
        assert_eq!((stored.outputs(), stored.n_features()), (model.outputs(), D));
        let (old, new) = (stored.scores(dense).unwrap(), model.scores(dense).unwrap());
        let apart = old.iter().zip(&new).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart <= near, "{name}: {apart}");
        let rate = |model: &Model| model.accuracy(dense, &words).unwrap();
        assert!((rate(&stored) - rate(&model)).abs() <= 0.1, "{name}");
    }
}

#[test]
fn accuracy_is_about_labels_of_one_kind() {
    let x = pegasos::Dense::new(&[-2.0, -1.0, 1.0, 3.0], 4, 1).unwrap();
    let model = pegasos::Classifier::default().fit(x, &[0.0, 0.0, 1.0, 1.0]).unwrap();
    assert_eq!(model.accuracy(x, &[0.0, 0.0, 1.0, 1.0]).unwrap(), 1.0);
    assert!(model.accuracy(x, &[0, 0, 1, 1]).unwrap_err().to_string().starts_with("labels must"));
    assert!(model.accuracy(x, &["0", "0", "1", "1"]).is_err());
}
