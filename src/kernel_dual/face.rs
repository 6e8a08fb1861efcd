//! Conjugate gradients within the face of the domain that a point is on.
//!
//! * Where the regularisation is weak, most dual variables that are not 0 are free, and single steps, or leaps along their
//!   way, take ever longer to agree. Conjugate gradients see all of them at once.
//! * They may leave the domain. After some steps all that are outside are brought back to their ends and stay there, and the
//!   gradients begin anew without them: a face loses hundreds at a time. Who should not have stayed leaves its end again by the
//!   steps of single examples that follow. Where D is lower in the end, the best point on the line to there is taken.
//! * Source: conjugate gradients within a face Moré and Toraldo (1991); all that are outside at a time as in block principal
//!   pivoting, Júdice and Pires (1994). `benches/kernels.py --only several` has its times: usps and
//!   letter at C = 100 and 1000 took 0.24 to 0.36 of those of the record before.

use super::cells::Cells;
use crate::scalar::Scalar;
use crate::simd::WIDTH;

/// Steps between two looks at who is outside.
pub(super) const STEPS: usize = 20;

/// A step that gains no more than this part of the largest since they began anew is the last, or no more than this part of
/// what a step has gained on average.
const LEAST: f64 = 0.03;
const LITTLE: f64 = 0.1;

/// No step takes a dual variable farther than this, where the domain is no wider than 1: who goes as far is outside, and
/// what has been there leaves its roundings behind.
const FARTHEST: f64 = 16.0;

/// A dual variable that is no further outside is at its end.
const ROUNDING: f64 = 1e-13;

/// Where fewer than this part of those that have kernel values may still move, the others' are left out.
const PACKED: f64 = 0.9;

/// Where the dual variables of a face may be.
pub(super) trait Domain {
    /// Onto the changes that are allowed, of those that are `free`.
    fn project(&self, free: &[bool], v: &mut [f64]);

    /// Brings those that are outside back: who is to stay where it is then, somebody wherever there is a change.
    fn bring_back(&self, free: &[bool], dual: &mut [f64]) -> Vec<usize>;
}

/// What may move.
#[derive(Debug)]
pub(super) struct Face<S, D> {
    domain: D,
    /// Whether it still may move.
    free: Vec<bool>,
    /// Dual variables, what one of 1 is in w, and, of those that still may move, slopes of D.
    pub dual: Vec<f64>,
    factor: Vec<f64>,
    slopes: Vec<f64>,
    /// By output: who has it, and the kernel values among them, row after row.
    outputs: Vec<Vec<usize>>,
    values: Vec<S>,
}

impl<S: Scalar, D: Domain> Face<S, D> {
    /// Of dual variables, factors and slopes; by output who has it. `value(i, j)` is the kernel value of two with the same
    /// output. `None` where there is no memory.
    pub fn new(
        domain: D,
        [dual, factor, slopes]: [Vec<f64>; 3],
        outputs: Vec<Vec<usize>>,
        value: impl Fn(usize, usize) -> S,
    ) -> Option<Self> {
        let len = outputs.iter().map(|own| own.len() * own.len().next_multiple_of(WIDTH)).sum();
        let mut values = Vec::new();
        values.try_reserve_exact(len).ok()?;
        for own in &outputs {
            for &i in own {
                let first = values.len();
                values.extend(own.iter().map(|&j| value(i, j)));
                values.resize(first + own.len().next_multiple_of(WIDTH), S::default());
            }
        }
        let free = vec![true; dual.len()];
        Some(Face { domain, free, dual, factor, slopes, outputs, values })
    }

    /// What scores of those that still may move change by where coefficients in w do.
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

    /// Leaves out the kernel values of those that do not move any more.
    fn pack(&mut self) {
        let (mut from, mut to) = (0, 0);
        for own in &mut self.outputs {
            let stride = own.len().next_multiple_of(WIDTH);
            let stay: Vec<usize> = (0..own.len()).filter(|&k| self.free[own[k]]).collect();
            let narrow = stay.len().next_multiple_of(WIDTH);
            for &k in &stay {
                let row = from + k * stride;
                stay.iter()
                    .enumerate()
                    .for_each(|(j, &l)| self.values[to + j] = self.values[row + l]);
                self.values[to + stay.len()..to + narrow].fill(S::default());
                to += narrow;
            }
            from += own.len() * stride;
            own.retain(|&i| self.free[i]);
        }
        self.values.truncate(to);
    }

    /// Goes towards the best point of the face, in about so many steps at most: how many there were, and how many
    /// multiplications they took. Where many have left the domain, D may be lower there.
    pub fn ascend(&mut self, most: usize) -> (usize, usize) {
        let (len, mut work) = (self.dual.len(), 0);
        let (mut way, mut image) = (vec![0.0; len], vec![0.0; len]);
        // Of this way the squared gradient and the largest gain of a step; and what all steps have gained, and ends have lost.
        let (mut square, mut largest) = (0.0, 0.0_f64);
        let (mut steps, mut total, mut listed) = (0, 0.0, len);
        while steps < most {
            let mut there = false;
            for _ in 0..STEPS {
                let mut r = self.slopes.clone();
                self.domain.project(&self.free, &mut r);
                let next = dot(&r, &r);
                let beta = if square > 0.0 { next / square } else { 0.0 };
                way.iter_mut().zip(&r).for_each(|(way, r)| *way = beta * *way + r);
                self.image(&way, &mut image);
                (steps, work) = (steps + 1, work + self.values.len());
                let curve = dot(&way, &image);
                let far = way.iter().zip(&self.factor).map(|(way, factor)| (way / factor).abs());
                let (best, farthest) = (next / curve, FARTHEST / far.fold(0.0, f64::max));
                there = !(best > 0.0 && best.is_finite() && farthest > 0.0);
                if there {
                    break;
                }
                let t = best.min(farthest);
                for i in (0..len).filter(|&i| self.free[i]) {
                    self.dual[i] += t * way[i] / self.factor[i];
                    self.slopes[i] -= t * image[i];
                }
                let gain = t * (next - t * curve / 2.0);
                (square, largest, total) = (next, largest.max(gain), total + gain);
                if t < best {
                    (square, largest) = (0.0, 0.0);
                    break;
                }
                there = gain <= (LEAST * largest).max(LITTLE * total / steps as f64);
                if there {
                    break;
                }
            }
            let before = self.dual.clone();
            let stay = self.domain.bring_back(&self.free, &mut self.dual);
            if stay.is_empty() {
                if there {
                    break;
                }
                continue;
            }
            let moved = self.dual.iter().zip(before).zip(&self.factor);
            let changes: Vec<f64> = moved.map(|((a, before), c)| (a - before) * c).collect();
            self.image(&changes, &mut image);
            total += dot(&changes, &self.slopes) - dot(&changes, &image) / 2.0;
            self.slopes.iter_mut().zip(&image).for_each(|(slope, image)| *slope -= image);
            stay.iter().for_each(|&i| self.free[i] = false);
            (square, largest) = (0.0, 0.0);
            let free = self.free.iter().filter(|free| **free).count();
            if (free as f64) < PACKED * listed as f64 {
                self.pack();
                listed = free;
            }
        }
        (steps, work)
    }
}

/// Crammer and Singer's domain, example by example: within each the changes sum to 0.
#[derive(Debug)]
pub(super) struct Simplex {
    /// Whose they are; their places, and where each example's begin.
    examples: Vec<usize>,
    places: Vec<usize>,
    bounds: Vec<usize>,
    /// Whether a place is that of its example's label.
    own: Vec<bool>,
}

impl Domain for Simplex {
    fn project(&self, free: &[bool], v: &mut [f64]) {
        for range in self.bounds.windows(2) {
            let range = range[0]..range[1];
            let own = range.clone().filter(|&i| free[i]);
            let (sum, count) = own.fold((0.0, 0.0), |(sum, count), i| (sum + v[i], count + 1.0));
            let mean = sum / f64::max(count, 1.0);
            range.for_each(|i| v[i] = if free[i] { v[i] - mean } else { 0.0 });
        }
    }

    /// Others of their examples go to where all sum to 0.
    fn bring_back(&self, free: &[bool], dual: &mut [f64]) -> Vec<usize> {
        let Simplex { bounds, own, .. } = self;
        let mut stay = Vec::new();
        for range in bounds.windows(2) {
            let range = range[0]..range[1];
            if range.clone().all(|i| dual[i] <= end_of(own[i]) + ROUNDING) {
                continue;
            }
            // None where that of the label is 1 and stays.
            let label = range.clone().find(|&i| own[i] && free[i]);
            let others: Vec<usize> = range.clone().filter(|&i| !own[i] && free[i]).collect();
            let nearest = others.iter().copied().min_by(|&i, &j| dual[i].total_cmp(&dual[j]));
            others.iter().for_each(|&i| dual[i] = dual[i].min(0.0));
            let mut sum: f64 = others.iter().map(|&i| -dual[i]).sum();
            if label.is_none() && sum == 0.0 {
                nearest.into_iter().for_each(|i| dual[i] = -1.0);
                sum = 1.0;
            }
            let full = label.is_none() || sum >= 1.0;
            if full {
                others.iter().for_each(|&i| dual[i] /= sum);
            }
            label.into_iter().for_each(|i| dual[i] = sum.min(1.0));
            let ends = |i: usize| if own[i] { full } else { dual[i] == 0.0 };
            // One alone cannot move.
            let alone = range.clone().filter(|&i| free[i] && !ends(i)).count() < 2;
            stay.extend(range.filter(|&i| free[i] && (alone || ends(i))));
        }
        stay
    }
}

impl<S: Scalar> Face<S, Simplex> {
    /// `None` where there is nothing to move, or kernel values that it needs are not there.
    pub fn of(cells: &Cells<S>, n_outputs: usize) -> Option<Self> {
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
        if places.is_empty() {
            return None;
        }
        let mut outputs = vec![Vec::new(); n_outputs];
        places.iter().enumerate().for_each(|(i, &at)| outputs[cells.output(at)].push(i));
        let rows: Vec<&[S]> = places.iter().map(|&at| cells.row(at)).collect::<Option<_>>()?;
        let column = |at: usize| at - cells.starts[cells.output(at)];
        let columns: Vec<usize> = places.iter().map(|&at| column(at)).collect();
        let of = |all: &[f64]| places.iter().map(|&at| all[at]).collect::<Vec<f64>>();
        let mut numbers = [of(&cells.dual), of(&cells.factor), of(&cells.scores)];
        let slopes = numbers[2].iter_mut().zip(&own);
        slopes.for_each(|(slope, own)| *slope = end_of(*own) - *slope);
        let domain = Simplex { examples, places, bounds, own };
        Face::new(domain, numbers, outputs, |i, j| rows[i][columns[j]])
    }

    /// Has the dual variables of the cells be these: what coefficients in w gain at which places.
    pub fn settle(self, cells: &mut Cells<S>) -> Vec<(usize, f64)> {
        let Simplex { examples, places, own, .. } = &self.domain;
        let before: Vec<f64> = places.iter().map(|&at| cells.dual[at]).collect();
        for (i, &at) in places.iter().enumerate() {
            cells.dual[at] = self.dual[i].min(end_of(own[i]));
        }
        examples.iter().for_each(|&e| cells.balance(e));
        let gains = places.iter().zip(before.iter().zip(&self.factor));
        let gains = gains.map(|(&at, (a, factor))| (at, factor * (cells.dual[at] - a)));
        gains.filter(|(_, gain)| *gain != 0.0).collect()
    }
}

/// An interval of length 1 for each, from there on.
#[derive(Debug)]
pub(super) struct Intervals(pub Vec<f64>);

impl Domain for Intervals {
    fn project(&self, free: &[bool], v: &mut [f64]) {
        v.iter_mut().zip(free).filter(|(_, free)| !**free).for_each(|(v, _)| *v = 0.0);
    }

    fn bring_back(&self, free: &[bool], dual: &mut [f64]) -> Vec<usize> {
        let mut stay = Vec::new();
        for (i, (a, low)) in dual.iter_mut().zip(&self.0).enumerate() {
            let inside = a.clamp(*low, low + 1.0);
            if free[i] && (*a - inside).abs() > ROUNDING {
                *a = inside;
                stay.push(i);
            }
        }
        stay
    }
}

/// Up to where a dual variable goes: that of the label, or another.
fn end_of(own: bool) -> f64 {
    if own { 1.0 } else { 0.0 }
}

fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(u, v)| u * v).sum()
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;

    /// A face of three outputs, of examples with and without the dual variable of their label, at any point.
    fn face(examples: usize, uniform: &mut impl FnMut() -> f64) -> Face<f64, Simplex> {
        let (mut bounds, mut own, mut outputs) = (vec![0], Vec::new(), vec![Vec::new(); 3]);
        for e in 0..examples {
            for (o, of_output) in outputs.iter_mut().enumerate().skip(usize::from(e % 4 == 0)) {
                of_output.push(own.len());
                own.push(o == 0);
            }
            bounds.push(own.len());
        }
        let len = own.len();
        let mut values = Vec::new();
        for own in &outputs {
            for _ in own {
                values.extend(own.iter().map(|_| uniform()));
                values.resize(values.len().next_multiple_of(WIDTH), 0.0);
            }
        }
        let mut dual: Vec<f64> = own.iter().map(|own| 3.0 * uniform() - end_of(!own)).collect();
        for range in bounds.windows(2) {
            let others: f64 = dual[range[0] + 1..range[1]].iter().sum();
            dual[range[0]] = if own[range[0]] { -others } else { -1.0 - others };
        }
        let (examples, places) = ((0..examples).collect(), (0..len).collect());
        Face {
            domain: Simplex { examples, places, bounds, own },
            free: vec![true; len],
            dual,
            factor: vec![2.0; len],
            slopes: vec![0.0; len],
            outputs,
            values,
        }
    }

    /// Whatever is outside, and however often: all come back into the domain, and where there is a change somebody stays.
    #[test]
    fn those_outside_come_back() {
        let mut numbers = Pcg64::new(5, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut face = face(400, &mut uniform);
        for _ in 0..20 {
            let before = face.dual.clone();
            let Face { domain, free, dual, .. } = &mut face;
            let stay = domain.bring_back(free, dual);
            for (i, (a, before)) in dual.iter().zip(&before).enumerate() {
                assert!(*a <= end_of(domain.own[i]) + ROUNDING && *a >= -1.0 - ROUNDING);
                assert!(free[i] || a == before);
            }
            for range in domain.bounds.windows(2) {
                let range = range[0]..range[1];
                let sum: f64 = dual[range.clone()].iter().sum();
                let label = if domain.own[range.start] { 0.0 } else { 1.0 };
                assert!((sum + label).abs() < 1e-12, "{sum}");
                let moves = range.clone().any(|i| dual[i] != before[i]);
                assert!(!moves || range.clone().any(|i| stay.contains(&i)));
            }
            stay.iter().for_each(|&i| free[i] = false);
            // From there the others go anywhere.
            for range in domain.bounds.windows(2) {
                let free: Vec<usize> = (range[0]..range[1]).filter(|&i| free[i]).collect();
                assert!(free.len() != 1);
                if let [i, .., j] = free[..] {
                    let change = 0.4 * (uniform() - 0.5);
                    dual[i] += change;
                    dual[j] -= change;
                }
            }
        }
    }

    /// Who still moves sees the same without the others.
    #[test]
    fn packing_changes_no_image() {
        let mut numbers = Pcg64::new(6, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut face = face(100, &mut uniform);
        let len = face.dual.len();
        let mut changes: Vec<f64> = (0..len).map(|_| uniform()).collect();
        for part in [0.9, 0.5, 0.01, 0.0] {
            for (free, change) in face.free.iter_mut().zip(&mut changes) {
                *free &= uniform() < part;
                *change = if *free { *change } else { 0.0 };
            }
            let (mut before, mut after) = (vec![0.0; len], vec![0.0; len]);
            face.image(&changes, &mut before);
            face.pack();
            face.image(&changes, &mut after);
            for (before, after) in before.iter().zip(&after) {
                assert!((before - after).abs() < 1e-12);
            }
            let numbers =
                face.outputs.iter().map(|own| own.len() * own.len().next_multiple_of(WIDTH));
            assert_eq!(face.values.len(), numbers.sum::<usize>());
        }
    }
}
