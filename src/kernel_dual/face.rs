//! Conjugate gradients within the face of the domain that a point is on.
//!
//! * Where the regularisation is weak, most dual variables that are not 0 are free, and single steps, or leaps along their
//!   way, take ever longer to agree. Conjugate gradients see all of them at once. They never leave the domain: where a
//!   dual variable comes to its end it stays there, and they begin anew without it. So they are worth their time where few do.
//! * Source: Moré and Toraldo (1991), Dostál (1997).

use super::cells::Cells;
use crate::scalar::Scalar;
use crate::simd::WIDTH;

/// They give up where more than [`ENDS`] of so many steps come to an end.
const RECENT: usize = 8;
const ENDS: usize = 4;

/// A step that gains no more than this part of the largest is the last.
const LEAST: f64 = 0.01;

/// A dual variable that is no further from its end is there.
const ROUNDING: f64 = 1e-13;

/// What may move, example by example: within each the changes sum to 0.
#[derive(Debug)]
pub(super) struct Face<S> {
    /// Whose they are; their places, and where each example's begin.
    examples: Vec<usize>,
    places: Vec<usize>,
    bounds: Vec<usize>,
    /// Whether a place is that of its example's label.
    own: Vec<bool>,
    /// Whether it still may.
    free: Vec<bool>,
    /// By output: who of these have it, and the kernel values among them, row after row.
    outputs: Vec<Vec<usize>>,
    values: Vec<S>,
}

impl<S: Scalar> Face<S> {
    /// The face of Crammer and Singer's domain. `None` where there is nothing to move, or kernel values that it needs are
    /// not there.
    pub fn of(cells: &Cells<S>, n_outputs: usize) -> Option<Face<S>> {
        let (mut places, mut bounds, mut own) = (Vec::new(), vec![0], Vec::new());
        let mut examples = Vec::new();
        for e in 0..cells.examples.len() {
            let first = places.len();
            let (label, _) = cells.at(cells.of(e).start + cells.own[e] as usize);
            let full = cells.dual[label] >= 1.0 - ROUNDING;
            let at = cells.of(e).map(|i| cells.at(i).0);
            places.extend(at.filter(|&at| if at == label { !full } else { cells.dual[at] < 0.0 }));
            if places.len() < first + 2 || cells.factor[label] <= 0.0 {
                places.truncate(first);
                continue;
            }
            own.extend(places[first..].iter().map(|&at| at == label));
            bounds.push(places.len());
            examples.push(e);
        }
        let mut outputs = vec![Vec::new(); n_outputs];
        places.iter().enumerate().for_each(|(i, &at)| outputs[cells.output(at)].push(i));
        let len = outputs.iter().map(|own| own.len() * own.len().next_multiple_of(WIDTH)).sum();
        let mut values = Vec::new();
        if places.is_empty() || values.try_reserve_exact(len).is_err() {
            return None;
        }
        for (o, own) in outputs.iter().enumerate() {
            for &i in own {
                let row = cells.row(places[i])?;
                let first = values.len();
                values.extend(own.iter().map(|&j| row[places[j] - cells.starts[o]]));
                values.resize(first + own.len().next_multiple_of(WIDTH), S::default());
            }
        }
        let free = vec![true; places.len()];
        Some(Face { examples, places, bounds, own, free, outputs, values })
    }

    /// What scores change by where coefficients in w do.
    fn image(&self, changes: &[f64], out: &mut [f64]) {
        let mut rest = &self.values[..];
        for own in &self.outputs {
            let of: Vec<f64> = own.iter().map(|&i| changes[i]).collect();
            let stride = own.len().next_multiple_of(WIDTH);
            for &i in own {
                let (row, others) = rest.split_at(stride);
                rest = others;
                out[i] = if self.free[i] { S::dot(&row[..of.len()], &of) } else { 0.0 };
            }
        }
    }

    /// Onto the changes that are allowed.
    fn project(&self, v: &mut [f64]) {
        for range in self.bounds.windows(2) {
            let range = range[0]..range[1];
            let free = range.clone().filter(|&i| self.free[i]);
            let (sum, count) = free.fold((0.0, 0.0), |(sum, count), i| (sum + v[i], count + 1.0));
            let mean = sum / f64::max(count, 1.0);
            range.for_each(|i| v[i] = if self.free[i] { v[i] - mean } else { 0.0 });
        }
    }

    /// Goes towards the best point of the face, in so many steps at most. Returns what coefficients in w have gained at which
    /// places, and whether that was worth its time.
    pub fn ascend(&mut self, cells: &mut Cells<S>, most: usize) -> (Vec<(usize, f64)>, bool) {
        let len = self.places.len();
        let factor: Vec<f64> = self.places.iter().map(|&at| cells.factor[at]).collect();
        let before: Vec<f64> = self.places.iter().map(|&at| cells.dual[at]).collect();
        let mut dual = before.clone();
        let mut slopes: Vec<f64> = (0..len)
            .map(|i| if self.own[i] { 1.0 } else { 0.0 } - cells.scores[self.places[i]])
            .collect();
        let (mut way, mut image) = (vec![0.0; len], vec![0.0; len]);
        let (mut square, mut largest, mut anew) = (0.0, 0.0_f64, true);
        let (mut steps, mut ends, mut worth) = (0, Vec::new(), true);
        while steps < most {
            let mut r = slopes.clone();
            self.project(&mut r);
            let next = dot(&r, &r);
            if !(next > 0.0 && next.is_finite()) {
                break;
            }
            let beta = if anew { 0.0 } else { next / square };
            way.iter_mut().zip(&r).for_each(|(way, r)| *way = beta * *way + r);
            self.image(&way, &mut image);
            steps += 1;
            square = next;
            let curve = dot(&way, &image);
            let full = square / curve;
            if !(curve > 0.0 && full.is_finite()) {
                worth = false;
                break;
            }
            // Up to where the first one comes to its end.
            let mut t = full;
            for i in (0..len).filter(|&i| way[i] > 0.0) {
                let end = if self.own[i] { 1.0 } else { 0.0 };
                t = t.min(((end - dual[i]) * factor[i] / way[i]).max(0.0));
            }
            anew = t < full;
            for i in 0..len {
                if !self.free[i] {
                    continue;
                }
                let end = if self.own[i] { 1.0 } else { 0.0 };
                dual[i] += t * way[i] / factor[i];
                slopes[i] -= t * image[i];
                if anew && dual[i] >= end - ROUNDING {
                    (dual[i], self.free[i]) = (end, false);
                }
            }
            if anew {
                ends.push(steps);
                worth = ends.len() <= ENDS || ends[ends.len() - 1 - ENDS] + RECENT < steps;
                if !worth {
                    break;
                }
                continue;
            }
            let gain = t * square / 2.0;
            largest = largest.max(gain);
            if gain <= LEAST * largest {
                break;
            }
        }
        for (i, &at) in self.places.iter().enumerate() {
            cells.dual[at] = dual[i];
        }
        self.examples.iter().for_each(|&e| cells.balance(e));
        let changes = self.places.iter().zip(before.iter().zip(&factor));
        let changes = changes.map(|(&at, (a, factor))| (at, factor * (cells.dual[at] - a)));
        (changes.filter(|(_, change)| *change != 0.0).collect(), worth)
    }
}

fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}
