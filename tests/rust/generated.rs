//! Small random problems, the same on every machine, and what the papers say of them, written out.

use pegasos::{
    AnyLoss, Binary, CrammerSinger, Csr, Dense, Error, ErrorKind, Examples, Linear, Loss,
    Multiclass, Params, Sampling, Scalar, Shards, Trainer,
};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Numbers between 0 and 1.
pub struct Uniform(Pcg64);

impl Uniform {
    pub fn new(seed: u64) -> Self {
        Uniform(Pcg64::new(u128::from(seed), 0))
    }

    pub fn draw(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between -1 and 1.
    pub fn signed(&mut self) -> f64 {
        2.0 * self.draw() - 1.0
    }
}

#[derive(Clone, Debug)]
pub struct Problem {
    pub n: usize,
    pub d: usize,
    /// n x d, about half of it zero.
    pub x: Vec<f64>,
    /// 0 or 1, mostly by the sign of a hidden linear score; or 0..k, mostly by the largest of k.
    pub y: Vec<u32>,
    pub weight: Vec<f64>,
}

pub struct CsrArrays<S> {
    pub indptr: Vec<i32>,
    pub indices: Vec<i32>,
    pub values: Vec<S>,
    pub n_features: usize,
}

impl<S: Scalar> CsrArrays<S> {
    pub fn view(&self) -> Csr<'_, S, i32> {
        Csr::new(&self.indptr, &self.indices, &self.values, self.n_features).unwrap()
    }
}

impl Problem {
    pub fn new(n: usize, d: usize, seed: u64) -> Self {
        Self::of_classes(n, d, 1, seed)
    }

    /// One score makes two classes, k scores make k.
    pub fn of_classes(n: usize, d: usize, k: usize, seed: u64) -> Self {
        let mut random = Uniform::new(seed);
        let x: Vec<f64> =
            (0..n * d).map(|_| if random.draw() < 0.5 { 0.0 } else { random.signed() }).collect();
        let hidden: Vec<f64> = (0..k * d).map(|_| random.signed()).collect();
        let y = x
            .chunks(d)
            .map(|row| {
                let noisy = hidden
                    .chunks(d)
                    .map(|w| dot(row, w) + 0.3 * (random.draw() - 0.5))
                    .collect::<Vec<f64>>();
                if k == 1 { u32::from(noisy[0] > 0.0) } else { first_largest(&noisy, k) as u32 }
            })
            .collect();
        let weight = (0..n).map(|i| if i % 10 == 3 { 0.0 } else { 0.5 + random.draw() }).collect();
        Problem { n, d, x, y, weight }
    }

    /// The same with all weights 1.
    pub fn unweighted(self) -> Self {
        Problem { weight: vec![1.0; self.n], ..self }
    }

    /// The same with x as f32 holds it.
    pub fn rounded(self) -> Self {
        let x = self.x.iter().map(|&x| f64::from(x as f32)).collect();
        Problem { x, ..self }
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.x[i * self.d..(i + 1) * self.d]
    }

    pub fn dense(&self) -> Dense<'_, f64> {
        Dense::new(&self.x, self.n, self.d).unwrap()
    }

    pub fn single(&self) -> Vec<f32> {
        self.x.iter().map(|&x| x as f32).collect()
    }

    pub fn csr(&self) -> CsrArrays<f64> {
        self.csr_of(|x| x)
    }

    pub fn csr_of<S>(&self, scalar: impl Fn(f64) -> S) -> CsrArrays<S> {
        let mut csr = CsrArrays {
            indptr: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
            n_features: self.d,
        };
        for i in 0..self.n {
            for (j, &x) in self.row(i).iter().enumerate().filter(|(_, x)| **x != 0.0) {
                csr.indices.push(j as i32);
                csr.values.push(scalar(x));
            }
            csr.indptr.push(csr.values.len() as i32);
        }
        csr
    }

    /// Row i and the constant feature.
    pub fn features(&self, i: usize, constant: f64) -> Vec<f64> {
        let mut x = self.row(i).to_vec();
        x.push(constant);
        x
    }

    /// The scores of row i under [`flat`] weights.
    pub fn scores(&self, i: usize, w: &[f64], constant: f64) -> Vec<f64> {
        let x = self.row(i);
        w.chunks(self.d + 1).map(|w| dot(&w[..self.d], x) + w[self.d] * constant).collect()
    }

    /// `lambda/2 ||w||^2` and the weighted loss of row i.
    pub fn round(&self, i: usize, rule: Rule, w: &[f64], constant: f64, lambda: f64) -> f64 {
        let loss = rule.value(&self.scores(i, w, constant), self.y[i]);
        lambda / 2.0 * dot(w, w) + self.weight[i] * loss
    }

    /// P at [`flat`] weights.
    pub fn objective(&self, rule: Rule, w: &[f64], constant: f64, lambda: f64) -> f64 {
        (0..self.n).map(|i| self.round(i, rule, w, constant, lambda)).sum::<f64>() / self.n as f64
    }

    /// `w(a)`, and D at it: a lower bound on the minimum of P, for any a in the domain.
    pub fn image(&self, rule: Rule, a: &[f64], constant: f64, lambda: f64) -> (Vec<f64>, f64) {
        let (n, k, d) = (self.n as f64, rule.outputs(), self.d + 1);
        let (mut w, mut sum) = (vec![0.0; k * d], 0.0);
        for (i, a) in a.chunks(k).enumerate().filter(|(i, _)| self.weight[*i] > 0.0) {
            let x = self.features(i, constant);
            for (w, a) in w.chunks_mut(d).zip(a) {
                add(w, self.weight[i] * a / (lambda * n), &x);
            }
            sum += self.weight[i] * rule.dual(a, self.y[i]).expect("a point of the domain");
        }
        let dual = sum / n - lambda / 2.0 * dot(&w, &w);
        (w, dual)
    }
}

/// A loss, as the papers write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Margin(AnyLoss),
    CrammerSinger(usize),
}

impl Rule {
    pub const HINGE: Rule = Rule::Margin(AnyLoss::Hinge);

    pub fn outputs(self) -> usize {
        match self {
            Rule::Margin(_) => 1,
            Rule::CrammerSinger(k) => k,
        }
    }

    pub fn value(self, f: &[f64], y: u32) -> f64 {
        match self {
            Rule::Margin(loss) => {
                let m = sign(y) * f[0];
                match loss {
                    AnyLoss::Hinge => (1.0 - m).max(0.0),
                    AnyLoss::SquaredHinge => (1.0 - m).max(0.0).powi(2),
                    AnyLoss::Logistic => (-m).max(0.0) + (-m.abs()).exp().ln_1p(),
                }
            }
            Rule::CrammerSinger(_) => {
                let y = y as usize;
                (1.0 + f[first_largest(f, y)] - f[y]).max(0.0)
            }
        }
    }

    /// The conjugate at -a, negated: of an example's dual variables what they add to D. None outside
    /// its domain.
    pub fn dual(self, a: &[f64], y: u32) -> Option<f64> {
        match self {
            Rule::Margin(loss) => {
                let a = sign(y) * a[0];
                let entropy = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
                match loss {
                    AnyLoss::SquaredHinge => (a >= 0.0).then_some(a - a * a / 4.0),
                    _ if !(0.0..=1.0).contains(&a) => None,
                    AnyLoss::Hinge => Some(a),
                    AnyLoss::Logistic => Some(entropy(a) + entropy(1.0 - a)),
                }
            }
            Rule::CrammerSinger(k) => {
                let y = y as usize;
                let below = (0..k).filter(|&r| r != y).all(|r| a[r] <= 0.0);
                let sums = a.iter().sum::<f64>().abs() < 1e-12 && a[y] <= 1.0 + 1e-12;
                (below && sums).then_some(a[y])
            }
        }
    }

    /// The negative gradient by the scores.
    pub fn coef(self, f: &[f64], y: u32) -> Vec<f64> {
        match self {
            Rule::Margin(loss) => {
                let m = sign(y) * f[0];
                vec![
                    sign(y)
                        * match loss {
                            AnyLoss::Hinge => f64::from(u8::from(m < 1.0)),
                            AnyLoss::SquaredHinge => 2.0 * (1.0 - m).max(0.0),
                            AnyLoss::Logistic => 1.0 / (1.0 + m.exp()),
                        },
                ]
            }
            Rule::CrammerSinger(k) => {
                let y = y as usize;
                let r = first_largest(f, y);
                let mut coef = vec![0.0; k];
                if 1.0 + f[r] - f[y] > 0.0 {
                    (coef[y], coef[r]) = (1.0, -1.0);
                }
                coef
            }
        }
    }
}

/// Class 1 lies on the positive side.
pub fn sign(y: u32) -> f64 {
    if y == 1 { 1.0 } else { -1.0 }
}

/// The first of the largest but for number `but`.
fn first_largest(f: &[f64], but: usize) -> usize {
    let others = (0..f.len()).filter(|&i| i != but).rev();
    others.max_by(|&a, &b| f[a].partial_cmp(&f[b]).unwrap()).unwrap()
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// `w += c x`
pub fn add(w: &mut [f64], c: f64, x: &[f64]) {
    w.iter_mut().zip(x).for_each(|(w, x)| *w += c * x);
}

pub fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// How far apart, in proportion where they are large.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    norm(&difference(a, b)) / (1.0 + norm(b))
}

/// Moves w into the ball.
pub fn shrink_into(w: &mut [f64], radius: f64) {
    let norm = norm(w);
    if norm > radius {
        w.iter_mut().for_each(|w| *w *= radius / norm);
    }
}

/// For every output its weights, then the weight of the constant feature.
pub fn flat<S: Scalar>(w: &Linear<S>) -> Vec<f64> {
    let constant = w.constant();
    let b = |intercept: f64| if constant > 0.0 { intercept / constant } else { 0.0 };
    w.weights()
        .chunks(w.n_features())
        .zip(w.intercepts())
        .flat_map(|(w, i)| w.iter().map(|w| w.to_f64()).chain([b(i)]).collect::<Vec<_>>())
        .collect()
}

pub const HINGE: Binary<AnyLoss> = Binary { loss: AnyLoss::Hinge, positive: 1 };
pub const CLASSES: Multiclass = joint(3);

/// All classes in one problem. Losses that are chosen at run time, here and elsewhere in these tests, as the crate has their
/// trainers compiled already; classes.rs has the others.
pub const fn joint(classes: usize) -> Multiclass {
    Multiclass::CrammerSinger(CrammerSinger { classes })
}

/// A trainer whose w is 0.
pub fn trainer<S: Scalar, L: Loss>(loss: L, d: usize, params: Params) -> Trainer<Linear<S>, L> {
    let outputs = loss.zeros().as_ref().len();
    Trainer::new(Linear::new(outputs, d, 1.0).unwrap(), loss, params).unwrap()
}

/// Epochs on shards of these sizes, each part of a shuffled order.
pub fn sharded_epochs<L: Loss + Clone + Send, S: Scalar>(
    trainer: &mut Trainer<Linear<S>, L>,
    data: &Examples<'_, S>,
    sizes: &[usize],
    epochs: std::ops::Range<u64>,
) -> Result<(), Error> {
    for epoch in epochs {
        let order: Vec<usize> = Sampling::Shuffle.epoch(data.len(), 4, epoch)?.collect();
        let mut rest = &order[..];
        let parts: Vec<&[usize]> =
            sizes.iter().map(|&size| rest.split_off(..size).unwrap()).collect();
        let mut shards = Shards::split(trainer, sizes)?;
        shards.run(data, &parts)?;
        shards.merge_into(trainer)?;
    }
    Ok(())
}

/// The rows with their columns backwards, some of them in halves that stand apart, and each where `column` says.
pub fn csr_of<S>(
    problem: &Problem,
    n_features: usize,
    column: impl Fn(usize) -> usize,
    scalar: impl Fn(f64) -> S,
) -> CsrArrays<S> {
    let (indptr, indices, values) = (vec![0], Vec::new(), Vec::new());
    let mut csr = CsrArrays { indptr, indices, values, n_features };
    for i in 0..problem.n {
        for half in 0..2 {
            for (j, &x) in problem.row(i).iter().enumerate().rev().filter(|(_, x)| **x != 0.0) {
                let halved = (i + j).is_multiple_of(3);
                if halved || half == 0 {
                    csr.indices.push(column(j) as i32);
                    csr.values.push(scalar(if halved { x / 2.0 } else { x }));
                }
            }
        }
        csr.indptr.push(csr.values.len() as i32);
    }
    csr
}

pub fn unsorted<S>(problem: &Problem, scalar: impl Fn(f64) -> S) -> CsrArrays<S> {
    csr_of(problem, problem.d, |j| j, scalar)
}

/// To a share of the largest.
pub fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1e-300, |most: f64, w| most.max(w.abs()));
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * size, "{what}: {got}, not {want}, at {k}");
    }
}

pub fn wide<S: Scalar>(values: &[S]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

pub fn is_of_other_features(error: &Error, want: usize, got: usize) {
    assert!(matches!(error.kind(), ErrorKind::Shape { name: "X", .. }), "{error}");
    assert_eq!(error.to_string(), format!("X must have {want} features, got {got}"));
}
