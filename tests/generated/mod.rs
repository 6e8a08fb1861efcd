//! Small random problems, the same on every machine.

#![allow(dead_code, reason = "each test file uses its part")]

use pegasos::{Csr, Dense};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

pub struct Problem {
    pub n: usize,
    pub d: usize,
    /// n x d, about half of it zero.
    pub x: Vec<f64>,
    /// 0 or 1, mostly by the sign of a hidden linear score.
    pub y: Vec<u32>,
    pub weight: Vec<f64>,
}

pub struct CsrArrays {
    pub indptr: Vec<i32>,
    pub indices: Vec<i32>,
    pub values: Vec<f64>,
    pub n_features: usize,
}

impl CsrArrays {
    pub fn view(&self) -> Csr<'_, f64, i32> {
        Csr::new(&self.indptr, &self.indices, &self.values, self.n_features).unwrap()
    }
}

impl Problem {
    pub fn new(n: usize, d: usize, seed: u64) -> Self {
        let mut rng = Pcg64::new(u128::from(seed), 0);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let x: Vec<f64> =
            (0..n * d).map(|_| if uniform() < 0.5 { 0.0 } else { 2.0 * uniform() - 1.0 }).collect();
        let hidden: Vec<f64> = (0..d).map(|_| 2.0 * uniform() - 1.0).collect();
        let y = x
            .chunks(d)
            .map(|row| {
                let score: f64 = row.iter().zip(&hidden).map(|(x, w)| x * w).sum();
                u32::from(score + 0.3 * (uniform() - 0.5) > 0.0)
            })
            .collect();
        let weight = (0..n).map(|i| if i % 10 == 3 { 0.0 } else { 0.5 + uniform() }).collect();
        Problem { n, d, x, y, weight }
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.x[i * self.d..(i + 1) * self.d]
    }

    pub fn dense(&self) -> Dense<'_, f64> {
        Dense::new(&self.x, self.n, self.d).unwrap()
    }

    pub fn csr(&self) -> CsrArrays {
        let mut csr = CsrArrays {
            indptr: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
            n_features: self.d,
        };
        for i in 0..self.n {
            for (j, &x) in self.row(i).iter().enumerate().filter(|(_, x)| **x != 0.0) {
                csr.indices.push(j as i32);
                csr.values.push(x);
            }
            csr.indptr.push(csr.values.len() as i32);
        }
        csr
    }
}
