//! Training on a budget: against the paper's pseudo-code, with every step taken the long way.

use pegasos::{
    Average, Ball, Binary, Budgeted, CrammerSinger, Dense, Examples, Hinge, Hypothesis, Kernel,
    Loss, Maintenance, Params, Rows, Trainer,
};

mod generated;
use generated::{Problem, Rule, dot};

/// Narrow enough for kernel matrices that can be inverted to many digits, by the test too.
const RBF: Kernel = Kernel::Rbf { gamma: 2.0 };
const HINGE: Binary<Hinge> = Binary { loss: Hinge, positive: 1 };
const CLASSES: CrammerSinger = CrammerSinger { classes: 4 };
const N: usize = 400;

fn value(kernel: Kernel, x: &[f64], z: &[f64]) -> f64 {
    match kernel {
        Kernel::Rbf { gamma } => {
            (-gamma * x.iter().zip(z).map(|(x, z)| (x - z).powi(2)).sum::<f64>()).exp()
        }
        Kernel::Poly { gamma, coef0, degree } => (gamma * dot(x, z) + coef0).powi(degree as i32),
        _ => dot(x, z),
    }
}

#[derive(Clone)]
struct Vector {
    x: Vec<f64>,
    /// Of the iterate, and of the average.
    alpha: Vec<f64>,
    mean: Vec<f64>,
    born: usize,
}

/// Wang, Crammer and Vucetic (2010), Algorithm 1: coefficients with all their factors, kernel values computed
/// anew wherever they are needed.
struct Naive {
    kernel: Kernel,
    vectors: Vec<Vector>,
    /// `||dw||^2` from all pairs of vectors, of each maintenance.
    degradation: Vec<f64>,
    updates: usize,
}

impl Naive {
    fn scores(&self, x: &[f64], outputs: usize) -> Vec<f64> {
        let of = |o| self.vectors.iter().map(|s| s.alpha[o] * value(self.kernel, &s.x, x)).sum();
        (0..outputs).map(of).collect()
    }

    /// `||before - after||^2` from the Gram matrix of all their vectors.
    fn apart(&self, before: &[Vector], after: &[Vector]) -> f64 {
        let signed = before.iter().map(|v| (v, 1.0)).chain(after.iter().map(|v| (v, -1.0)));
        let all: Vec<(&Vector, f64)> = signed.collect();
        let pair = |(s, c): &(&Vector, f64), (z, d): &(&Vector, f64)| {
            c * d * dot(&s.alpha, &z.alpha) * value(self.kernel, &s.x, &z.x)
        };
        all.iter().map(|s| all.iter().map(|z| pair(s, z)).sum::<f64>()).sum()
    }

    fn smallest(&self) -> usize {
        let size = |v: &Vector| dot(&v.alpha, &v.alpha) * value(self.kernel, &v.x, &v.x);
        let least = self.vectors.iter().map(size).fold(f64::INFINITY, f64::min);
        // Equal up to rounding: here coefficients carry their factors.
        let ties = self.vectors.iter().enumerate().filter(|(_, v)| size(v) <= least * (1.0 + 1e-9));
        ties.min_by_key(|(_, v)| v.born).unwrap().0
    }

    /// Solves `K d = k` over the vectors by Gauss' elimination.
    fn projection(&self, x: &[f64]) -> Vec<f64> {
        let n = self.vectors.len();
        let k = |z: &[f64], x: &[f64]| value(self.kernel, z, x);
        let mut rows: Vec<Vec<f64>> = self
            .vectors
            .iter()
            .map(|s| {
                let mut row: Vec<f64> = self.vectors.iter().map(|z| k(&s.x, &z.x)).collect();
                row.push(k(&s.x, x));
                row
            })
            .collect();
        for p in 0..n {
            let pivot = rows[p].clone();
            for (i, row) in rows.iter_mut().enumerate() {
                if i != p {
                    let c = row[p] / pivot[p];
                    row.iter_mut().zip(&pivot).for_each(|(a, b)| *a -= c * b);
                }
            }
        }
        (0..n).map(|i| rows[i][n] / rows[i][i]).collect()
    }

    /// Takes out a vector and gives others part of its coefficients.
    fn project(&mut self, p: usize) {
        let gone = self.vectors.remove(p);
        let d = self.projection(&gone.x);
        for (v, d) in self.vectors.iter_mut().zip(d) {
            v.alpha.iter_mut().zip(&gone.alpha).for_each(|(a, g)| *a += d * g);
            v.mean.iter_mut().zip(&gone.mean).for_each(|(a, g)| *a += d * g);
        }
    }

    /// Two vectors as one, at a part h of m.
    fn merged(&self, m: &Vector, n: &Vector, h: f64, born: usize) -> Vector {
        let mix = |p: f64, a: &[f64], q: f64, b: &[f64]| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| p * a + q * b).collect()
        };
        let x = mix(h, &m.x, 1.0 - h, &n.x);
        let (u, v) = (value(self.kernel, &m.x, &x), value(self.kernel, &n.x, &x));
        let (alpha, mean) = (mix(u, &m.alpha, v, &n.alpha), mix(u, &m.mean, v, &n.mean));
        Vector { x, alpha, mean, born }
    }

    /// The least degradation of merging two, by a grid and then a section search around its best point.
    fn merge(&self, m: &Vector, n: &Vector, born: usize) -> (f64, Vector) {
        let cost = |h: f64| self.apart(&[m.clone(), n.clone()], &[self.merged(m, n, h, born)]);
        let best = (0..=200)
            .min_by(|&i, &j| cost(f64::from(i) / 200.0).total_cmp(&cost(f64::from(j) / 200.0)));
        let middle = f64::from(best.unwrap()) / 200.0;
        let (mut low, mut high) = ((middle - 0.005).max(0.0), (middle + 0.005).min(1.0));
        for _ in 0..60 {
            let (a, b) = (low + (high - low) * 0.382, low + (high - low) * 0.618);
            if cost(a) < cost(b) { high = b } else { low = a }
        }
        let h = 0.5 * (low + high);
        // The ends are places too.
        let h = [h, 0.0, 1.0].into_iter().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
        (cost(h), self.merged(m, n, h, born))
    }

    fn maintain(&mut self, maintenance: Maintenance, born: usize) {
        let before = self.vectors.clone();
        match maintenance {
            Maintenance::Remove => {
                let p = self.smallest();
                self.vectors.remove(p);
            }
            Maintenance::Project => {
                let p = self.smallest();
                self.project(p);
            }
            Maintenance::Merge => {
                let m = self.smallest();
                let other = |n: &usize| *n != m;
                let all = (0..before.len()).filter(other);
                let merge = |n: usize| (n, self.merge(&before[m], &before[n], born));
                let (n, (_, z)) = all.map(merge).min_by(|a, b| a.1.0.total_cmp(&b.1.0)).unwrap();
                self.vectors[n] = z;
                self.vectors.remove(m);
            }
            _ => unreachable!(),
        }
        let degradation = self.apart(&before, &self.vectors);
        self.degradation.push(degradation);
    }

    fn train(
        problem: &Problem,
        rule: Rule,
        kernel: Kernel,
        budget: usize,
        maintenance: Maintenance,
        params: &Params,
        order: &[usize],
    ) -> Naive {
        let mut w = Naive { kernel, vectors: Vec::new(), degradation: Vec::new(), updates: 0 };
        for (t, &i) in (1..).zip(order) {
            let x = problem.row(i).to_vec();
            let mut coef = rule.coef(&w.scores(&x, rule.outputs()), problem.y[i]);
            coef.iter_mut().for_each(|c| *c *= problem.weight[i]);
            let shrink = 1.0 - 1.0 / t as f64;
            for v in &mut w.vectors {
                v.alpha.iter_mut().for_each(|a| *a *= shrink);
            }
            let moved = coef.iter().any(|c| *c != 0.0);
            if moved {
                w.updates += 1;
                let eta = 1.0 / (params.lambda * t as f64);
                let alpha: Vec<f64> = coef.iter().map(|c| eta * c).collect();
                match w.vectors.iter_mut().find(|v| v.x == x) {
                    Some(v) => v.alpha.iter_mut().zip(alpha).for_each(|(a, c)| *a += c),
                    None => {
                        let mean = vec![0.0; alpha.len()];
                        w.vectors.push(Vector { x, alpha, mean, born: w.updates });
                    }
                }
                if w.vectors.len() > budget {
                    w.maintain(maintenance, w.updates);
                }
            }
            if let Some(Ball { radius }) = params.set {
                let norm = w.apart(&w.vectors, &[]).max(0.0).sqrt();
                if norm > radius {
                    let all = w.vectors.iter_mut().flat_map(|v| &mut v.alpha);
                    all.for_each(|a| *a *= radius / norm);
                }
            }
            if let (true, Average::Recent { window }) = (moved, params.average) {
                let q = 1.0 / (w.updates as u64 / 8).min(window).max(1) as f64;
                for v in &mut w.vectors {
                    v.mean.iter_mut().zip(&v.alpha).for_each(|(m, a)| *m += q * (a - *m));
                }
            }
        }
        w
    }
}

fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1e-300, |most: f64, w| most.max(w.abs()));
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * size, "{what}: {got}, not {want}, at {k}");
    }
}

fn scores_of(w: &Budgeted<f64>, x: &Dense<'_, f64>) -> Vec<f64> {
    let numbers: Vec<usize> = (0..x.n_rows()).collect();
    let mut out = vec![0.0; numbers.len() * w.outputs()];
    w.scores(x, &numbers, &mut out);
    out
}

fn check<L: Loss + Clone>(rule: Rule, loss: L, kernel: Kernel, maintenance: Maintenance) {
    let problem = Problem::of_classes(N, 5, rule.outputs(), 11);
    let data = Examples::new(problem.dense(), &problem.y, Some(&problem.weight)).unwrap();
    // Some rows twice in a row, and again later.
    let order: Vec<usize> =
        (0..2 * N).map(|k| if k % 9 == 1 { (k - 1) * 7 % N } else { k * 7 % N }).collect();
    let recent = Average::Recent { window: 24 };
    for params in [
        Params { lambda: 0.02, average: recent, ..Params::default() },
        Params { lambda: 0.02, set: Some(Ball { radius: 3.0 }), ..Params::default() },
    ] {
        let what = format!("{kernel:?} {maintenance:?} {:?}", params.set);
        let naive = Naive::train(&problem, rule, kernel, 12, maintenance, &params, &order);
        let outputs = loss.zeros().as_ref().len();
        let w = Budgeted::new(kernel, outputs, problem.d, Some(12), maintenance).unwrap();
        let mut trainer = Trainer::new(w, loss.clone(), params).unwrap();
        let report = trainer.run(&data, order.iter().copied()).unwrap();
        let w = trainer.hypothesis();
        assert!(naive.degradation.len() > 50, "{what}: {}", naive.degradation.len());
        assert_eq!(w.n_vectors(), 12);
        let want: Vec<f64> = (0..N).flat_map(|i| naive.scores(problem.row(i), outputs)).collect();
        near(&scores_of(w, data.rows()), &want, 1e-6, &what);
        let sum: f64 = naive.degradation.iter().sum();
        near(&[report.degradation], &[sum], 1e-6, &what);
        let square = naive.apart(&naive.vectors, &[]);
        near(&[w.norm2(), w.norm2_afresh()], &[square; 2], 1e-6, &what);
        if params.average == recent {
            let mean = trainer.result();
            let w = Naive {
                vectors: naive
                    .vectors
                    .iter()
                    .map(|v| Vector { alpha: v.mean.clone(), ..v.clone() })
                    .collect(),
                ..naive
            };
            let want: Vec<f64> = (0..N).flat_map(|i| w.scores(problem.row(i), outputs)).collect();
            near(&scores_of(&mean, data.rows()), &want, 1e-6, &what);
        }
    }
}

#[test]
fn every_strategy_is_the_paper() {
    let poly = Kernel::Poly { gamma: 0.5, coef0: 1.0, degree: 3 };
    for maintenance in [Maintenance::Remove, Maintenance::Project] {
        for kernel in [RBF, poly] {
            check(Rule::HINGE, HINGE, kernel, maintenance);
            check(Rule::CrammerSinger(4), CLASSES, kernel, maintenance);
        }
    }
    check(Rule::HINGE, HINGE, RBF, Maintenance::Merge);
    check(Rule::CrammerSinger(4), CLASSES, RBF, Maintenance::Merge);
}
