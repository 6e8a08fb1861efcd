//! Leaps along the way of passes.
//!
//! * Where w is small beside what a pass looks at, passes leave a [`Trail`] of dual variables and of w, which is their image,
//!   and after some of them ascent goes on at the best point in the plane of their ends. The trail is about those dual variables
//!   alone that have moved since it began: of a copy of all of them, those of the rows of each pass are compared.
//! * For losses whose conjugates are quadratics, as D is then. What of them is not linear, as of the squared hinge, is a product
//!   of dual variables with themselves: these are a part of their own image.
//! * Cost: about thirty passes over w and over what has moved, and a step in w for each dual variable that the leap has brought
//!   out of its domain. Memory: the dual variables once more, and 8 bytes for each weight and whatever has moved, ten times; of the
//!   squared hinge what has moved twice as often.
//! * Trials on an Intel Xeon, refits in 500 features to a gap of 1e-2 at lambda = 1e-6, by way of larger ones: without leaps and
//!   with them letter took 183 and 37 epochs, usps 100 and 28, covtype15k 78 and 27, all jointly, a9a 18 and 10. Linear, with the
//!   squared hinge to 1e-3, on an AMD EPYC: the ten classes of 10,000 images of digits at C = 1, 784 features, 691 and 177.

use crate::error::Error;
use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::memory;
use crate::scalar::{Scalar, largest};
use crate::table::Table;
use crate::trail::{Image, Point, SWEEPS, Trail, Way};

use super::{DualAscent, WHAT};

/// How many times as many as the numbers that have moved, and as the weights, the multiplications of a pass must be. A narrow one
/// may be smaller beside the weights: it saves more than its own time. In trials of narrow passes over few examples 32 and 64
/// instead of 8 took 3 to 6 times as many visits.
const BESIDE: usize = 16;
const BESIDE_WEIGHTS: usize = 32;
const BESIDE_WEIGHTS_NARROWLY: usize = 8;

/// Where all dual variables that have moved may be brought back within so many multiplications there is a leap, so that a caller
/// is soon heard: it does so up to four times.
const MOST: usize = 1 << 27;

/// Points, and ways between them, that a leap holds at a time.
const POINTS: usize = 10;

/// A change that is nothing but a rounding, of the largest of an example's dual variables: where rows are large, all of them are
/// far below 1.
const ROUNDING: f64 = 1e-14;

/// But for norms, which nobody asks for on the way.
impl Image for Linear<f64> {
    fn less(&self, other: &Self) -> Self {
        let mut found = self.clone();
        found.mix_roughly(1.0, -1.0, other);
        found
    }

    fn plus(&mut self, c: f64, other: &Self) {
        self.mix_roughly(1.0, c, other);
    }
}

/// What dual variables come to: w, and where conjugates are not linear themselves.
type Both = (Linear<f64>, Vec<f64>);

impl Image for Both {
    fn less(&self, other: &Self) -> Self {
        (self.0.less(&other.0), self.1.less(&other.1))
    }

    fn plus(&mut self, c: f64, other: &Self) {
        self.0.plus(c, &other.0);
        self.1.plus(c, &other.1);
    }
}

/// Where the last passes have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Hindsight {
    /// The dual variables at the last end; absent where nobody looks back.
    dual: Option<Table<f64>>,
    /// w at the ends that are looked back on, and what has moved after each.
    images: Vec<Linear<f64>>,
    moved: Vec<Moved>,
    /// The rows of the pass at hand, and those that the last leap has moved.
    due: Vec<u32>,
    leapt: Vec<u32>,
}

/// Rows, in ascending order, and what their dual variables were: those of each begin where `bounds` say, of many outputs those
/// that were not 0.
#[derive(Clone, Debug, Default)]
struct Moved {
    rows: Vec<u32>,
    bounds: Vec<usize>,
    before: Vec<(u32, f64)>,
}

/// Dual variables that a leap is about: whose they are, where those of each begin, their outputs, and where among these the
/// example's own class is; see [`Places::new`].
struct Places {
    examples: Vec<u32>,
    bounds: Vec<usize>,
    outputs: Vec<u32>,
    own: Vec<u32>,
}

/// Makes these rows be there, some after others, and shows examples among which they are.
pub(crate) type Show<'a, S> = &'a mut dyn FnMut(&[usize], &mut Look<'_, S>);
type Look<'a, S> = dyn FnMut(&Examples<'_, S>, &[usize]) + 'a;

impl Hindsight {
    /// These rows are visited next.
    pub(super) fn begin(&mut self, due: &[u32]) {
        if self.dual.is_some() {
            self.due.clear();
            self.due.extend_from_slice(due);
        }
    }

    /// Notes what has moved; how many numbers that is.
    fn note(&mut self, now: &Table<f64>) -> usize {
        let Some(old) = &mut self.dual else {
            return 0;
        };
        let mut rows = std::mem::take(&mut self.leapt);
        if rows.is_empty() {
            rows.clone_from(&self.due);
        } else {
            rows.extend_from_slice(&self.due);
            rows.sort_unstable();
            rows.dedup();
        }
        let mut moved = Moved { bounds: vec![0], ..Moved::default() };
        rows.retain(|&i| {
            let moves = !old.agrees(i as usize, now);
            if moves {
                old.for_each(i as usize, |o, a| moved.before.push((o as u32, a)));
                moved.bounds.push(moved.before.len());
                old.copy(i as usize, now);
            }
            moves
        });
        moved.rows = rows;
        self.moved.push(moved);
        self.moved.iter().map(|moved| moved.before.len() + moved.rows.len()).sum()
    }
}

impl Moved {
    fn each(&self) -> impl Iterator<Item = (u32, &[(u32, f64)])> {
        let ranges = self.bounds.windows(2).map(|range| &self.before[range[0]..range[1]]);
        self.rows.iter().copied().zip(ranges)
    }
}

impl Places {
    /// Of all that have moved. On the simplex some outputs and their own one are a problem of its kind; elsewhere all outputs are
    /// there, and the own one is the class, whichever that is.
    fn new<S: Scalar>(
        moved: &[Moved],
        now: &Table<f64>,
        data: &Examples<'_, S>,
        simplex: bool,
    ) -> Places {
        let all = moved.iter().flat_map(Moved::each);
        let mut all: Vec<(u32, &[(u32, f64)])> = all.collect();
        all.sort_by_key(|moved| moved.0);
        let (mut examples, mut bounds, mut outputs) = (Vec::new(), vec![0], Vec::new());
        let mut own = Vec::new();
        let mut one: Vec<u32> = Vec::new();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let i = same[0].0;
            one.clear();
            one.extend(same.iter().flat_map(|moved| moved.1.iter().map(|entry| entry.0)));
            now.for_each(i as usize, |o, _| one.push(o as u32));
            let y = data.label(i as usize);
            one.extend(simplex.then_some(y));
            one.sort_unstable();
            one.dedup();
            let place = if simplex { one.partition_point(|&o| o < y) as u32 } else { y };
            outputs.extend_from_slice(&one);
            bounds.push(outputs.len());
            examples.push(i);
            own.push(place);
        }
        Places { examples, bounds, outputs, own }
    }

    /// The examples, where their dual variables stand, and where the own one is among these.
    fn each(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>, u32)> {
        let ranges = self.bounds.windows(2).map(|range| range[0]..range[1]);
        let each = self.examples.iter().zip(ranges).zip(&self.own);
        each.map(|((&i, range), &own)| (i as usize, range, own))
    }

    /// Makes dual variables what they were before these moved.
    fn undo(&self, moved: &Moved, dual: &mut [f64]) {
        let mut each = self.each();
        for (i, before) in moved.each() {
            let Some((_, range, _)) = each.find(|place| place.0 == i as usize) else {
                return;
            };
            let (outputs, dual) = (&self.outputs[range.clone()], &mut dual[range]);
            dual.fill(0.0);
            for (o, a) in before {
                if let Ok(at) = outputs.binary_search(o) {
                    dual[at] = *a;
                }
            }
        }
    }
}

impl<L: Loss> DualAscent<L> {
    /// After a pass: leaps, if that is worth anything, and the gap is not about `tol`, which an evaluation is to tell first.
    pub(crate) fn look_back<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
    ) -> Result<(), Error> {
        let x = data.rows();
        let stored = if x.is_sparse() { x.stored_in_a_row() } else { x.n_features() };
        self.look_back_on(data, tol, stored, &mut |rows, look| look(data, rows))
    }

    /// The same where rows are not those of the data, and so long.
    pub(crate) fn look_back_on<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        tol: f64,
        stored: usize,
        show: Show<'_, S>,
    ) -> Result<(), Error> {
        let simplex = self.loss.on_simplex();
        let apart = self.loss.quadratic().is_some() && !self.dual.is_of_many();
        if self.free.is_some() || !(simplex || apart) {
            return Ok(());
        }
        let outputs = self.dual.outputs();
        let (looked, beside) = match self.narrow.now {
            true => (self.narrow.looked, BESIDE_WEIGHTS_NARROWLY),
            false => (self.due * outputs, BESIDE_WEIGHTS),
        };
        let (work, size) = (looked.saturating_mul(stored), self.w.size());
        let mut pays = work >= beside.saturating_mul(size);
        if pays && self.hindsight.dual.is_none() {
            // To begin with, a pass over all dual variables.
            pays = work >= self.len() * outputs
                && self.dual.check_copy(WHAT).is_ok()
                && memory::check::<f64>(WHAT, &[POINTS, size]).is_ok();
            if pays {
                let (dual, images) = (Some(self.dual.clone()), vec![self.w.clone()]);
                self.hindsight = Hindsight { dual, images, ..Hindsight::default() };
                return Ok(());
            }
        }
        let numbers = if pays { self.hindsight.note(&self.dual) } else { 0 };
        pays &= work >= BESIDE * numbers;
        if !pays || memory::check::<f64>(WHAT, &[POINTS, numbers + size]).is_err() {
            self.hindsight = Hindsight::default();
            return Ok(());
        }
        let Hindsight { images, moved, .. } = &mut self.hindsight;
        if moved.len() < SWEEPS {
            images.push(self.w.clone());
            return Ok(());
        }
        let (moved, ends) = (std::mem::take(moved), std::mem::take(images));
        images.push(self.w.clone());
        if !self.narrow.now && self.may_be_solved(tol) {
            return Ok(());
        }
        let places = Places::new(&moved, &self.dual, data, simplex);
        let soon = places.outputs.len().saturating_mul(stored) <= MOST;
        if soon && self.leap_back(data, &moved, ends, &places, show)? {
            self.hindsight.leapt = places.examples;
        }
        Ok(())
    }

    /// Says whether it has.
    fn leap_back<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        moved: &[Moved],
        ends: Vec<Linear<f64>>,
        places: &Places,
        show: Show<'_, S>,
    ) -> Result<bool, Error> {
        let n_lambda = self.lambda * self.len() as f64;
        let curved = self.loss.quadratic().filter(|bend| *bend > 0.0);
        // Of each dual variable, where conjugates are not linear.
        let mut weights = Vec::new();
        if let Some(bend) = curved {
            for (i, range, _) in places.each() {
                weights.extend(range.map(|_| bend * data.weight(i)));
            }
        }
        let quadratic = |u: &[f64], v: &[f64]| -> f64 {
            u.iter().zip(v).zip(&weights).map(|((u, v), weight)| weight * u * v).sum()
        };
        let conjugates = |dual: &[f64]| -> f64 {
            let of = |(i, range, own)| data.weight(i) * self.loss.conjugate(&dual[range], own);
            places.each().map(of).sum()
        };
        let bent = |dual: &[f64]| if curved.is_some() { dual.to_vec() } else { Vec::new() };
        let linear = |dual: &[f64]| conjugates(dual) - quadratic(dual, dual) / 2.0;
        let point = |dual: &[f64], image| {
            let (image, conjugates) = ((image, bent(dual)), linear(dual));
            Point { dual: dual.to_vec(), image, conjugates }
        };
        let mut dual = vec![0.0; places.outputs.len()];
        for (i, range, _) in places.each() {
            self.dual.read_few(i, &places.outputs[range.clone()], &mut dual[range]);
        }
        let before = conjugates(&dual);
        let here = point(&dual, self.w.clone());
        let mut points = Vec::new();
        for (moved, image) in moved.iter().zip(ends).rev() {
            places.undo(moved, &mut dual);
            points.push(point(&dual, image));
        }
        points.reverse();
        let mut steps = 0;
        let product = &|Way { image: (w, dual), .. }: &Way<Both>, (v, other): &Both| {
            n_lambda * w.product(v) + quadratic(dual, other)
        };
        let leap = Trail::of(points).leap(here, product, |there| {
            let (mut rows, mut changes, mut old) = (Vec::new(), Vec::new(), Vec::new());
            for (i, range, own) in places.each() {
                old.clear();
                old.extend_from_slice(&there.dual[range.clone()]);
                if old.iter().all(|a| *a == 0.0) {
                    continue;
                }
                let large = largest(&old);
                let (c, count) = (data.weight(i) / n_lambda, changes.len());
                self.loss.make_feasible(&mut there.dual[range.clone()], own);
                for (at, old) in range.zip(&old) {
                    let change = there.dual[at] - old;
                    if change.abs() > ROUNDING * large {
                        changes.push((i, places.outputs[at] as usize, c * change));
                    }
                }
                if changes.len() > count {
                    rows.push(i);
                }
            }
            steps += changes.len();
            let mut left = changes.iter().peekable();
            show(&rows, &mut |data, rows| {
                for &i in rows {
                    while let Some((_, o, change)) = left.next_if(|change| change.0 == i) {
                        there.image.0.add_to(*o, data.rows().row(i), *change);
                    }
                }
            });
            there.image.1 = bent(&there.dual);
            there.conjugates = linear(&there.dual);
            Ok(!rows.is_empty())
        })?;
        self.narrow.cost += steps;
        let Some((there, _)) = leap else {
            return Ok(false);
        };
        self.dual.promise(WHAT, places.outputs.len())?;
        self.conjugates += conjugates(&there.dual) - before;
        for (i, range, _) in places.each() {
            self.dual.write_few(i, &places.outputs[range.clone()], &there.dual[range]);
        }
        self.w = there.image.0;
        self.w.measure();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::{AnyLoss, Binary, CrammerSinger, Dense, Hypothesis, OneVsRest, Sampling};

    /// How far w is from what the dual variables come to, beside itself.
    fn apart<L: Loss + Clone>(ascent: &DualAscent<L>, data: &Examples<'_, f64>) -> f64 {
        let mut other = ascent.clone();
        other.add_image(data, 0..data.len());
        // That is twice it.
        other.w.mix(0.5, 0.0, &ascent.w);
        (other.w.less(&ascent.w).norm2_afresh() / ascent.w.norm2_afresh()).sqrt()
    }

    /// Weak regularisation, labels with noise, some rows without weight: how often ascent leaps in so many passes, none of
    /// which takes it down, out of the domain, or w away from what the dual variables come to.
    fn leaps<L: Loss + Clone>(loss: &L, classes: u32, d: usize, passes: usize) -> usize {
        let n = 1500;
        let mut numbers = Pcg64::new(3, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let x: Vec<f64> = (0..n * d).map(|_| uniform()).collect();
        let label = |row: &[f64]| {
            let place = if uniform() < 0.3 { uniform() } else { row[0] };
            (place * f64::from(classes)) as u32
        };
        let y: Vec<u32> = x.chunks(d).map(label).collect();
        let weights: Vec<f64> = (0..n).map(|i| [1.0, 0.0, 3.0][i % 3]).collect();
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, Some(&weights)).unwrap();
        let mut ascent = DualAscent::on(loss.clone(), 1e-5, n, d, 1.0, true).unwrap();
        let mut count = 0;
        for _ in 0..passes {
            // As an evaluation does.
            ascent.wake_all();
            let order = ascent.pass(Sampling::Shuffle, 0).unwrap();
            ascent.run(&data, order).unwrap();
            let (before, dual) = (ascent.dual_value(&data), ascent.dual().to_vec());
            ascent.look_back(&data, 0.0).unwrap();
            let after = ascent.dual_value(&data);
            assert!(after >= before - 1e-12, "{before} {after}");
            count += usize::from(*ascent.dual() != *dual);
            for (i, a) in ascent.dual().chunks(loss.outputs()).enumerate() {
                assert!(loss.excess(a, y[i]) <= 1.0 + 1e-12, "{a:?}");
                assert!(!loss.on_simplex() || a.iter().sum::<f64>().abs() < 1e-12);
            }
            assert!((ascent.conjugates - ascent.sum_conjugates(&data)).abs() < 1e-9);
            assert!(apart(&ascent, &data) <= 1e-8);
        }
        count
    }

    #[test]
    fn leaps_raise_d_and_keep_its_account() {
        let joint = |classes| CrammerSinger { classes };
        let binary = Binary { loss: AnyLoss::Hinge, positive: 1 };
        // Some of the classes, each against the rest: the others have no output.
        let rest = OneVsRest { loss: AnyLoss::Hinge, positives: vec![3, 1] };
        let few = [leaps(&binary, 2, 70, 60), leaps(&joint(3), 3, 70, 60), leaps(&rest, 9, 70, 60)];
        let narrow = leaps(&joint(10), 10, 70, 60);
        assert!(few.iter().all(|&count| count >= 10) && narrow >= 2, "{few:?} {narrow}");
        // Conjugates that are not linear: with squares, and of no such kind; and few multiplications beside the weights.
        let of = |loss| Binary { loss, positive: 1 };
        let squares = OneVsRest { loss: AnyLoss::SquaredHinge, positives: vec![3, 1] };
        let smooth = [leaps(&of(AnyLoss::SquaredHinge), 2, 70, 60), leaps(&squares, 9, 70, 60)];
        assert!(smooth.iter().all(|&count| count >= 10), "{smooth:?}");
        let none = [leaps(&of(AnyLoss::Logistic), 2, 70, 20), leaps(&joint(3), 3, 2, 20)];
        assert_eq!(none, [0, 0]);
    }

    /// Long rows, whose dual variables are 1e-12 and less: no change of these is a rounding for being small.
    #[test]
    fn w_follows_dual_variables_of_any_size() {
        let (n, d) = (300, 300);
        let mut numbers = Pcg64::new(11, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let x: Vec<f64> = (0..n * d).map(|_| 1e5 * uniform()).collect();
        let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.3)).collect();
        let data = Examples::new(Dense::new(&x, n, d).unwrap(), &y, None).unwrap();
        for loss in [AnyLoss::Hinge, AnyLoss::SquaredHinge] {
            let loss = Binary { loss, positive: 1 };
            let mut ascent = DualAscent::on(loss, 1.0 / n as f64, n, d, 1.0, true).unwrap();
            for _ in 0..100 {
                ascent.wake_all();
                let order = ascent.pass(Sampling::Shuffle, 0).unwrap();
                ascent.run(&data, order).unwrap();
                ascent.look_back(&data, 0.0).unwrap();
            }
            assert!(apart(&ascent, &data) <= 1e-6, "{}", apart(&ascent, &data));
        }
    }
}
