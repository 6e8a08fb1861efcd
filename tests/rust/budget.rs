//! Training on a budget: against the paper's pseudo-code, with every step taken the long way.

use pegasos::{
    Average, Ball, Block, Budgeted, BudgetedState, Dense, Error, Examples, Expansion, Hypothesis,
    Kernel, Loss, Maintenance, Matrix, Multiclass, Params, Scalar, Schedule, Trainer,
};

use crate::generated::{HINGE, Problem, Rule, dot, joint};

/// Narrow enough for kernel matrices that can be inverted to many digits, by the test too.
const RBF: Kernel = Kernel::Rbf { gamma: 2.0 };
const CLASSES: Multiclass = joint(4);
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
    /// Examples that were added, and steps that added any.
    added: usize,
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
        let both = [m.clone(), n.clone()];
        let cost = |h: f64| self.apart(&both, &[self.merged(m, n, h, born)]);
        let least = |places: &[f64]| {
            let costs = places.iter().map(|h| (*h, cost(*h)));
            costs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0
        };
        let middle = least(&(0..=100).map(|i| f64::from(i) / 100.0).collect::<Vec<f64>>());
        let (mut low, mut high) = ((middle - 0.01).max(0.0), (middle + 0.01).min(1.0));
        for _ in 0..50 {
            let (a, b) = (low + (high - low) * 0.382, low + (high - low) * 0.618);
            if cost(a) < cost(b) { high = b } else { low = a }
        }
        // The ends are places too.
        let h = least(&[0.5 * (low + high), 0.0, 1.0]);
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
        let Block::Mean(batch) = params.block else { panic!("no delays here") };
        let (vectors, degradation) = (Vec::new(), Vec::new());
        let mut w = Naive { kernel, vectors, degradation, added: 0, updates: 0 };
        for (t, rows) in (1..).zip(order.chunks(batch)) {
            let of = |&i: &usize| -> (Vec<f64>, Vec<f64>) {
                let x = problem.row(i).to_vec();
                let coef = rule.coef(&w.scores(&x, rule.outputs()), problem.y[i]);
                let share = problem.weight[i] / rows.len() as f64;
                (x, coef.iter().map(|c| share * c).collect())
            };
            let mut terms: Vec<(Vec<f64>, Vec<f64>)> = rows.iter().map(of).collect();
            terms.retain(|(_, coef)| coef.iter().any(|c| *c != 0.0));
            let shrink = 1.0 - 1.0 / t as f64;
            for v in &mut w.vectors {
                v.alpha.iter_mut().for_each(|a| *a *= shrink);
            }
            let moved = !terms.is_empty();
            w.updates += usize::from(moved);
            for (x, coef) in terms {
                w.added += 1;
                let eta = 1.0 / (params.lambda * t as f64);
                let alpha: Vec<f64> = coef.iter().map(|c| eta * c).collect();
                match w.vectors.iter_mut().find(|v| v.x == x) {
                    Some(v) => v.alpha.iter_mut().zip(alpha).for_each(|(a, c)| *a += c),
                    None => {
                        let mean = vec![0.0; alpha.len()];
                        w.vectors.push(Vector { x, alpha, mean, born: w.added });
                    }
                }
                if w.vectors.len() > budget {
                    w.maintain(maintenance, w.added);
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

fn scores_of(w: &Budgeted<f64>, x: &Matrix<'_, f64>) -> Vec<f64> {
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
        // Batches that begin and end within a panel, and such that are longer than one.
        Params { lambda: 0.02, average: recent, block: Block::Mean(5), ..Params::default() },
        Params {
            lambda: 0.02,
            set: Some(Ball { radius: 3.0 }),
            block: Block::Mean(19),
            ..Params::default()
        },
    ] {
        let what = format!("{kernel:?} {maintenance:?} {:?} {:?}", params.set, params.block);
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

/// Kernel and maintenance: all that there are.
fn strategies() -> Vec<Maintenance> {
    vec![
        Maintenance::Remove,
        Maintenance::Random { seed: 5 },
        Maintenance::Project,
        Maintenance::Merge,
        Maintenance::Projectron { threshold: 0.1, margin: true },
        Maintenance::Projectron { threshold: 0.01, margin: false },
    ]
}

/// Steps of one size that never fade are the perceptron's.
fn params_for(maintenance: Maintenance) -> Params {
    let recent = Average::Recent { window: 30 };
    match maintenance {
        Maintenance::Projectron { .. } => {
            let schedule = Schedule::InvScaling { eta0: 1.0, power: 0.0 };
            Params { lambda: 0.0, schedule, average: recent, ..Params::default() }
        }
        _ => Params { lambda: 0.01, average: recent, ..Params::default() },
    }
}

fn trained<S: Scalar>(
    data: &Examples<'_, S>,
    budget: Option<usize>,
    maintenance: Maintenance,
    params: Params,
    chunks: &[&[usize]],
) -> Trainer<Budgeted<S>, Multiclass> {
    let d = data.rows().n_features();
    let w = match data.rows().is_sparse() {
        true => Budgeted::sparse(RBF, 4, d, budget, maintenance).unwrap(),
        false => Budgeted::new(RBF, 4, d, budget, maintenance).unwrap(),
    };
    let mut trainer = Trainer::new(w, CLASSES, params).unwrap();
    for order in chunks {
        trainer.run(data, order.iter().copied()).unwrap();
    }
    trainer
}

/// Look-ahead changes nothing: examples by ones, by sevens or all at once, dense or sparse.
#[test]
fn panels_are_exact() {
    let problem = Problem::of_classes(N, 5, 4, 3).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let arrays = problem.csr();
    let sparse = Examples::new(arrays.view(), &problem.y, None).unwrap();
    let order: Vec<usize> = (0..3 * N).map(|k| k * 37 % N).collect();
    for maintenance in strategies() {
        for set in [None, Some(Ball { radius: 5.0 })] {
            let params = Params { set, ..params_for(maintenance) };
            let what = format!("{maintenance:?} {set:?}");
            let whole = trained(&data, Some(15), maintenance, params, &[&order]);
            let want = scores_of(whole.hypothesis(), data.rows());
            let mean = scores_of(&whole.result(), data.rows());
            for size in [1, 7] {
                let chunks: Vec<&[usize]> = order.chunks(size).collect();
                let other = trained(&data, Some(15), maintenance, params, &chunks);
                near(&scores_of(other.hypothesis(), data.rows()), &want, 1e-6, &what);
                near(&scores_of(&other.result(), data.rows()), &mean, 1e-6, &what);
                assert_eq!(other.updates(), whole.updates());
            }
            let other = trained(&sparse, Some(15), maintenance, params, &[&order]);
            near(&scores_of(other.hypothesis(), data.rows()), &want, 1e-9, &what);
            // The model for prediction is the average.
            let model = whole.hypothesis().model().unwrap();
            let numbers: Vec<usize> = (0..N).collect();
            let mut scores = vec![0.0; 4 * N];
            model.scores(data.rows(), &numbers, &mut scores);
            near(&scores, &mean, 1e-9, &what);
        }
    }
}

/// With room for all, there is no budget.
#[test]
fn a_large_budget_is_none() {
    let problem = Problem::of_classes(N, 5, 4, 3).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let order: Vec<usize> = (0..2 * N).map(|k| k * 37 % N).collect();
    for average in
        [Average::None, Average::Uniform, Average::Polynomial, Average::Recent { window: 40 }]
    {
        for set in [None, Some(Ball { radius: 5.0 })] {
            let params = Params { lambda: 0.01, average, set, ..Params::default() };
            let mut free = Expansion::new(RBF, 4, 5).unwrap();
            free.number_rows(N).unwrap();
            let mut free = Trainer::new(free, CLASSES, params).unwrap();
            free.run(&data, order.iter().copied()).unwrap();
            let numbers: Vec<usize> = (0..N).collect();
            let mut want = vec![0.0; 4 * N];
            free.result().scores(data.rows(), &numbers, &mut want);
            for maintenance in [Maintenance::Remove, Maintenance::Merge] {
                let bounded = trained(&data, Some(N), maintenance, params, &[&order]);
                let what = format!("{maintenance:?} {average:?} {set:?}");
                near(&scores_of(&bounded.result(), data.rows()), &want, 1e-9, &what);
                // Rows with the same features are one vector where rows have no numbers.
                assert!(bounded.hypothesis().n_vectors() <= free.hypothesis().n_vectors());
            }
        }
    }
}

/// Stored and taken up again, training goes on as if it had never stopped.
#[test]
fn training_is_taken_up_again() {
    let problem = Problem::of_classes(N, 5, 4, 3).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let order: Vec<usize> = (0..3 * N).map(|k| k * 37 % N).collect();
    let (first, second) = order.split_at(N + 11);
    for maintenance in strategies() {
        let params = params_for(maintenance);
        let what = format!("{maintenance:?}");
        let mut whole = trained(&data, Some(15), maintenance, params, &[first]);
        let w = whole.hypothesis();
        let mut rows = Vec::new();
        for k in 0..w.n_vectors() {
            let mut row = vec![0.0; 5];
            w.for_each(k, |j, x| row[j] = x);
            rows.extend(row);
        }
        let x = Dense::new(&rows, w.n_vectors(), 5).unwrap().into();
        let mut again = Budgeted::new(RBF, 4, 5, Some(15), maintenance).unwrap();
        again.restore(&x, &w.state()).unwrap();
        assert_eq!(again.state(), w.state());
        // Without a panel too: a vector that is there, and one that is not.
        let mut alone = again.clone();
        alone.add(0, x.row(3), &[1.0, -1.0, 0.0, 0.0]);
        alone.add(0, data.rows().row(5), &[0.0, 0.0, 1.0, -1.0]);
        assert!(alone.norm2().is_finite() && alone.n_vectors() <= 15);
        let mut again = Trainer::resume(again, CLASSES, params, whole.t()).unwrap();
        again.set_updates(whole.updates());
        whole.run(&data, second.iter().copied()).unwrap();
        again.run(&data, second.iter().copied()).unwrap();
        let want = scores_of(&whole.result(), data.rows());
        near(&scores_of(&again.result(), data.rows()), &want, 1e-6, &what);
    }
}

/// An average may begin before there is a vector.
#[test]
fn averages_of_nothing_yet() {
    let x = [0.0, 0.0, 1.0, 2.0];
    let data = Examples::new(Dense::new(&x, 4, 1).unwrap(), &[0, 1, 1, 0], None).unwrap();
    for average in [Average::Uniform, Average::Polynomial] {
        let params = Params { lambda: 0.1, average, ..Params::default() };
        // Zeros have no image here, and so become no vector.
        let w = Budgeted::new(Kernel::Linear, 1, 1, Some(3), Maintenance::Project).unwrap();
        let mut bounded = Trainer::new(w, HINGE, params).unwrap();
        bounded.run(&data, 0..4).unwrap();
        let mut free =
            Trainer::new(Expansion::new(Kernel::Linear, 1, 1).unwrap(), HINGE, params).unwrap();
        free.run(&data, 0..4).unwrap();
        let (mut got, mut want) = ([0.0], [0.0]);
        bounded.result().score(data.rows().row(3), &mut got);
        free.result().score(data.rows().row(3), &mut want);
        near(&got, &want, 1e-9, "averages");
    }
}

/// Gradients that arrive late, from rows of a matrix that is gone.
#[test]
fn delays_go_with_budgets() {
    let problem = Problem::of_classes(N, 5, 4, 3).unweighted();
    let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
    let order: Vec<usize> = (0..2 * N).map(|k| k * 37 % N).collect();
    let params = Params { block: Block::Delayed(5), ..params_for(Maintenance::Merge) };
    let whole = trained(&data, Some(15), Maintenance::Merge, params, &[&order]);
    let (first, second) = order.split_at(N - 3);
    let parts = trained(&data, Some(15), Maintenance::Merge, params, &[first, second]);
    let want = scores_of(&whole.result(), data.rows());
    near(&scores_of(&parts.result(), data.rows()), &want, 1e-6, "delays");
}

/// Orabona's code, written out, with every kernel matrix solved afresh.
#[test]
fn projectron_is_its_authors() {
    for (rule, classes) in [(Rule::HINGE, 2), (Rule::CrammerSinger(4), 4)] {
        for (threshold, margin) in [(0.1, true), (0.1, false), (0.5, true), (0.01, true)] {
            let problem = Problem::of_classes(N, 5, rule.outputs(), 7).unweighted();
            let data = Examples::new(problem.dense(), &problem.y, None).unwrap();
            let outputs = rule.outputs();
            let mut naive = Naive {
                kernel: RBF,
                vectors: Vec::new(),
                degradation: Vec::new(),
                added: 0,
                updates: 0,
            };
            for i in 0..N {
                let x = problem.row(i).to_vec();
                let scores = naive.scores(&x, outputs);
                let y = problem.y[i];
                let loss = rule.value(&scores, y);
                let coef = rule.coef(&scores, y);
                let d = naive.projection(&x);
                let k: Vec<f64> = naive.vectors.iter().map(|v| value(RBF, &v.x, &x)).collect();
                let delta = (1.0 - dot(&d, &k)).max(0.0);
                let mut factor = 0.0;
                if loss >= 1.0 {
                    if delta <= threshold || delta < 1e-5 {
                        factor = 1.0;
                    } else {
                        naive.vectors.push(Vector {
                            x,
                            alpha: coef.clone(),
                            mean: Vec::new(),
                            born: 0,
                        });
                    }
                } else if margin && loss > 0.0 {
                    let away = if delta < 1e-5 { 0.0 } else { delta / threshold };
                    let q = dot(&coef, &coef) * (1.0 - delta);
                    if loss > away {
                        factor = (loss / q).min(1.0).min(2.0 * (loss - away) / q);
                    }
                }
                for (v, d) in naive.vectors.iter_mut().zip(&d) {
                    v.alpha.iter_mut().zip(&coef).for_each(|(a, c)| *a += factor * d * c);
                }
            }
            let maintenance = Maintenance::Projectron { threshold, margin };
            let params = Params { average: Average::None, ..params_for(maintenance) };
            let what = format!("{classes} {maintenance:?}");
            let want: Vec<f64> =
                (0..N).flat_map(|i| naive.scores(problem.row(i), outputs)).collect();
            let w = Budgeted::new(RBF, outputs, 5, None, maintenance).unwrap();
            let got = if classes == 2 {
                let mut trainer = Trainer::new(w, HINGE, params).unwrap();
                trainer.run(&data, 0..N).unwrap();
                trainer.result()
            } else {
                let mut trainer = Trainer::new(w, CLASSES, params).unwrap();
                trainer.run(&data, 0..N).unwrap();
                trainer.result()
            };
            assert_eq!(got.n_vectors(), naive.vectors.len(), "{what}");
            near(&scores_of(&got, data.rows()), &want, 1e-6, &what);
        }
    }
}

#[test]
fn bad_budgets_are_errors() {
    let make =
        |kernel, budget, maintenance| Budgeted::<f64>::new(kernel, 1, 2, budget, maintenance);
    let error = |w: Result<Budgeted<f64>, Error>| w.unwrap_err().to_string();
    assert!(error(make(RBF, Some(0), Maintenance::Merge)).contains("budget must be >= 1"));
    assert!(error(make(Kernel::Linear, Some(3), Maintenance::Merge)).contains("\"rbf\""));
    assert!(error(make(Kernel::Precomputed, Some(3), Maintenance::Remove)).contains("features"));
    let projectron = Maintenance::Projectron { threshold: f64::NAN, margin: true };
    assert!(error(make(RBF, Some(3), projectron)).contains("threshold"));
    let mut w = make(RBF, Some(1), Maintenance::Remove).unwrap();
    let x = Dense::new(&[0.0; 4], 2, 2).unwrap().into();
    let state = BudgetedState { v: vec![1.0; 2], born: vec![0; 2], ..Default::default() };
    assert!(w.restore(&x, &state).unwrap_err().to_string().contains("budget"));
    let mut w = make(RBF, Some(2), Maintenance::Remove).unwrap();
    let state = BudgetedState { v: vec![1.0, f64::INFINITY], ..state };
    assert_eq!(w.restore(&x, &state).unwrap_err().to_string(), "v must be finite, got inf");
}
