//! The papers' pseudo-code in its plainest form, against the crate, on the same order of examples.

use pegasos::{
    AnyLoss, Average, Ball, Binary, Block, Csr, Dense, Examples, Linear, Params, Rows, Sampling,
    Schedule, Trainer,
};

mod generated;
use generated::Problem;

/// Algorithm 1 of Shalev-Shwartz et al. (2011) with its options, w written out at every step.
struct Naive<'a> {
    problem: &'a Problem,
    loss: AnyLoss,
    params: Params,
    constant: f64,
}

impl Naive<'_> {
    fn slope(&self, m: f64) -> f64 {
        match self.loss {
            AnyLoss::Hinge => f64::from(u8::from(m < 1.0)),
            AnyLoss::SquaredHinge => 2.0 * (1.0 - m).max(0.0),
            AnyLoss::Logistic => 1.0 / (1.0 + m.exp()),
        }
    }

    fn eta(&self, t: f64) -> f64 {
        match self.params.schedule {
            Schedule::Pegasos => 1.0 / (self.params.lambda * t),
            Schedule::InvScaling { eta0, power } => eta0 / t.powf(power),
            Schedule::Constant { eta0 } => eta0,
        }
    }

    /// The last iterate, or the mean of the iterates: features, then the intercept.
    fn train(&self, order: &[usize]) -> Vec<f64> {
        let Params { lambda, t0, set, block, average, .. } = self.params;
        let Block::Mean(batch) = block else { unreachable!() };
        let d = self.problem.d;
        let mut w = vec![0.0; d + 1];
        let (mut mean, mut total) = (vec![0.0; d + 1], 0.0);
        for (t, rows) in (1..).zip(order.chunks(batch)) {
            let eta = self.eta(t0 + f64::from(t));
            let mut gradient: Vec<f64> = w.iter().map(|w| lambda * w).collect();
            for &i in rows {
                let mut x = self.problem.row(i).to_vec();
                x.push(self.constant);
                let y = if self.problem.y[i] == 1 { 1.0 } else { -1.0 };
                let margin: f64 = y * w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>();
                let c = self.problem.weight[i] * self.slope(margin) * y / rows.len() as f64;
                gradient.iter_mut().zip(&x).for_each(|(g, x)| *g -= c * x);
            }
            w.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= eta * g);
            let norm = w.iter().map(|w| w * w).sum::<f64>().sqrt();
            if let Some(Ball { radius }) = set.filter(|set| norm > set.radius) {
                w.iter_mut().for_each(|w| *w *= radius / norm);
            }
            let from = self.params.average_from;
            if average != Average::None && t as u64 >= from {
                let k = t as f64 - from as f64 + 1.0;
                let q = match average {
                    Average::Polynomial => k * (k + 1.0) * (k + 2.0),
                    _ => 1.0,
                };
                total += q;
                mean.iter_mut().zip(&w).for_each(|(m, w)| *m += (w - *m) * q / total);
            }
        }
        let mut result = if total > 0.0 { mean } else { w };
        result[d] *= self.constant;
        result
    }
}

fn fast<X: Rows>(
    x: X,
    problem: &Problem,
    loss: AnyLoss,
    params: Params,
    constant: f64,
    order: &[usize],
) -> Vec<f64>
where
    f64: From<X::Scalar>,
{
    let d = x.n_features();
    let data = Examples::new(x, &problem.y, Some(&problem.weight)).unwrap();
    let linear = Linear::new(1, d, constant).unwrap();
    let mut trainer = Trainer::new(linear, Binary { loss, positive: 1 }, params).unwrap();
    trainer.run(&data, order.iter().copied()).unwrap();
    let result = trainer.result();
    let weights = result.weights().into_iter().map(f64::from);
    weights.chain(result.intercepts()).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    difference / (1.0 + norm(&mut b.iter().copied()))
}

#[test]
fn every_composition_agrees_with_the_pseudo_code() {
    let problem = Problem::new(60, 7, 1);
    let csr = problem.csr();
    let order: Vec<usize> =
        (0..4).flat_map(|epoch| Sampling::Shuffle.epoch(60, 5, epoch).unwrap()).collect();
    let schedules = [
        Schedule::Pegasos,
        Schedule::InvScaling { eta0: 0.5, power: 0.5 },
        Schedule::InvScaling { eta0: 0.5, power: 1.0 },
        Schedule::Constant { eta0: 0.02 },
    ];
    let averages = [(Average::None, 1), (Average::Uniform, 1), (Average::Polynomial, 30)];
    let mut tried = 0;
    for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge, AnyLoss::Logistic] {
        for schedule in schedules {
            for (average, average_from) in averages {
                for batch in [1, 7] {
                    for (t0, set) in [(0.0, None), (0.0, Some(Ball { radius: 1.5 })), (40.0, None)]
                    {
                        for constant in [0.0, 1.0] {
                            let params = Params {
                                lambda: 0.3,
                                schedule,
                                t0,
                                set,
                                block: Block::Mean(batch),
                                average,
                                average_from,
                            };
                            let naive = Naive { problem: &problem, loss, params, constant };
                            let want = naive.train(&order);
                            let dense = problem.dense();
                            let got = fast(dense, &problem, loss, params, constant, &order);
                            let error = distance(&got, &want);
                            assert!(error < 1e-9, "{loss:?} {params:?} {constant}: {error}");
                            let sparse = csr.view();
                            let got = fast(sparse, &problem, loss, params, constant, &order);
                            let error = distance(&got, &want);
                            assert!(error < 1e-9, "sparse {loss:?} {params:?}: {error}");
                            tried += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(tried, 3 * 4 * 3 * 2 * 3 * 2);
}

#[test]
fn f32_stays_near_the_pseudo_code() {
    let problem = Problem::new(200, 20, 2);
    let order: Vec<usize> = Sampling::Shuffle.epoch(200, 9, 0).unwrap().collect();
    let x: Vec<f32> = problem.x.iter().map(|&x| x as f32).collect();
    for loss in [AnyLoss::Hinge, AnyLoss::Logistic] {
        let params = Params { lambda: 0.1, ..Params::default() };
        let naive = Naive { problem: &problem, loss, params, constant: 1.0 };
        let dense = Dense::new(&x, problem.n, problem.d).unwrap();
        let got = fast(dense, &problem, loss, params, 1.0, &order);
        let error = distance(&got, &naive.train(&order));
        assert!(error < 1e-4, "{loss:?}: {error}");
    }
}

#[test]
fn indices_of_every_type_agree() {
    let problem = Problem::new(40, 9, 3);
    let csr = problem.csr();
    let order: Vec<usize> = (0..40).collect();
    let params = Params::default();
    let want = fast(csr.view(), &problem, AnyLoss::Hinge, params, 0.0, &order);
    macro_rules! agrees {
        ($($t:ty),*) => {$({
            let indptr: Vec<$t> = csr.indptr.iter().map(|&i| i as $t).collect();
            let indices: Vec<$t> = csr.indices.iter().map(|&i| i as $t).collect();
            let x = Csr::new(&indptr, &indices, &csr.values, problem.d).unwrap();
            assert_eq!(fast(x, &problem, AnyLoss::Hinge, params, 0.0, &order), want);
        })*};
    }
    agrees!(i32, i64, u32, u64, usize);
}
