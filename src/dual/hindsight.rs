//! Leaps along the way of passes.
//!
//! * Where dual variables and w are few numbers beside what a pass looks at, passes leave a [`Trail`] of both, as w is the image
//!   of those, and after some of them ascent goes on at the best point in the plane of their ends. A phase of narrow passes is
//!   about certain dual variables, those that were not 0 when it began, and has a trail of its own.
//! * For losses whose conjugates are linear: D is a quadratic there.
//! * Cost: about thirty passes over these numbers, and a step in w for each dual variable that the leap has brought out of its
//!   domain. Memory: 8 bytes for each number, ten times, of half a million dual variables at most.

use crate::error::Error;
use crate::examples::Examples;
use crate::linear::Linear;
use crate::loss::Loss;
use crate::memory;
use crate::scalar::Scalar;
use crate::trail::{Image, Point, Trail};

use super::{DualAscent, WHAT};

/// How many times as many as these numbers the multiplications of a pass must be.
const BESIDE: usize = 32;

/// Of more dual variables there is no trail; nor where steps with all of them are so many multiplications: so that a caller is
/// soon heard.
const WIDEST: usize = 1 << 19;
const MOST: usize = 1 << 28;

/// Points, and ways between them, that a leap holds at a time.
const POINTS: usize = 10;

/// Of a dual variable, a change that is nothing but a rounding.
const ROUNDING: f64 = 1e-14;

impl Image for Linear<f64> {
    fn less(&self, other: &Self) -> Self {
        let mut found = self.clone();
        found.mix(1.0, -1.0, other);
        found
    }

    fn plus(&mut self, c: f64, other: &Self) {
        self.mix(1.0, c, other);
    }
}

/// The dual variables that a phase of narrow passes is about, and where its passes have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Hindsight {
    /// Whose they are, where those of each begin, their outputs, and where among these the example's own class is.
    examples: Vec<u32>,
    bounds: Vec<usize>,
    outputs: Vec<u32>,
    own: Vec<u32>,
    trail: Trail<Linear<f64>>,
}

/// Makes these rows be there, some after others, and shows examples among which they are.
pub(crate) type Show<'a, S> = &'a mut dyn FnMut(&[usize], &mut Look<'_, S>);
type Look<'a, S> = dyn FnMut(&Examples<'_, S>, &[usize]) + 'a;

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
        let linear = self.loss.on_simplex() || self.loss.hinge_sign(0, 0).is_some();
        if self.free.is_some() || !linear || self.dual.is_of_many() != self.narrow.now {
            return Ok(());
        }
        if !self.narrow.now && self.may_be_solved(tol) {
            return Ok(());
        }
        let outputs = self.dual.outputs();
        let (looked, least) = match self.narrow.now {
            true => (self.narrow.looked, 0),
            false => (self.due * outputs, self.len() * outputs),
        };
        let pays = |count: usize| {
            let numbers = BESIDE.saturating_mul(count + self.w.size());
            count <= WIDEST && looked.saturating_mul(stored) >= numbers
        };
        if !pays(least) {
            return Ok(());
        }
        let mut hindsight = std::mem::take(&mut self.narrow.hindsight);
        if hindsight.bounds.is_empty() {
            hindsight = self.see(data);
        }
        let count = hindsight.outputs.len();
        let room = || memory::check::<f64>(WHAT, &[POINTS, count + self.w.size()]).is_ok();
        if pays(count) && count.saturating_mul(stored) <= MOST && room() {
            self.leap_back(data, &mut hindsight, show)?;
        }
        self.narrow.hindsight = hindsight;
        Ok(())
    }

    /// All dual variables; of many outputs those that are not 0, and those of the classes of their examples.
    fn see<S: Scalar>(&self, data: &Examples<'_, S>) -> Hindsight {
        let mut found = Hindsight { bounds: vec![0], ..Hindsight::default() };
        let few = 0..if self.dual.is_of_many() { 0 } else { self.dual.outputs() as u32 };
        for i in 0..self.dual.len() {
            let (first, y) = (found.outputs.len(), data.label(i));
            let nonzeros = self.dual.nonzeros(i).iter().map(|entry| entry.0);
            found.outputs.extend(nonzeros.chain(few.clone()));
            let mut own = y as usize;
            if few.is_empty() {
                let outputs = &found.outputs[first..];
                own = outputs.partition_point(|&o| o < y);
                match outputs.len() {
                    0 => continue,
                    _ if outputs.get(own) == Some(&y) => {}
                    _ => found.outputs.insert(first + own, y),
                }
            }
            found.examples.push(i as u32);
            found.own.push(own as u32);
            found.bounds.push(found.outputs.len());
        }
        found
    }

    fn leap_back<S: Scalar>(
        &mut self,
        data: &Examples<'_, S>,
        hindsight: &mut Hindsight,
        show: Show<'_, S>,
    ) -> Result<(), Error> {
        let Hindsight { examples, bounds, outputs, own, trail } = hindsight;
        let mut dual = vec![0.0; outputs.len()];
        for (&i, range) in examples.iter().zip(bounds.windows(2)) {
            let range = range[0]..range[1];
            self.dual.read_few(i as usize, &outputs[range.clone()], &mut dual[range]);
        }
        let n_lambda = self.lambda * self.len() as f64;
        let conjugates = |dual: &[f64]| -> f64 {
            let of =
                examples.iter().zip(bounds.windows(2)).zip(&*own).map(|((&i, range), &own)| {
                    data.weight(i as usize) * self.loss.conjugate(&dual[range[0]..range[1]], own)
                });
            of.sum()
        };
        let before = conjugates(&dual);
        let here = Point { dual, image: self.w.clone(), conjugates: before };
        let mut steps = 0;
        let leap = trail.leap(here, &|way, w| n_lambda * way.image.product(w), |there| {
            let (mut rows, mut changes) = (Vec::new(), Vec::new());
            for ((&i, range), &own) in examples.iter().zip(bounds.windows(2)).zip(&*own) {
                let range = range[0]..range[1];
                let old = there.dual[range.clone()].to_vec();
                if old.iter().all(|a| *a == 0.0) {
                    continue;
                }
                let c = data.weight(i as usize) / n_lambda;
                self.loss.make_feasible(&mut there.dual[range.clone()], own);
                let count = changes.len();
                for (at, old) in range.zip(old) {
                    let change = there.dual[at] - old;
                    if change.abs() > ROUNDING {
                        changes.push((i as usize, outputs[at] as usize, c * change));
                    }
                }
                if changes.len() > count {
                    rows.push(i as usize);
                }
            }
            steps += changes.len();
            let mut left = changes.iter().peekable();
            show(&rows, &mut |data, rows| {
                for &i in rows {
                    while let Some((_, o, change)) = left.next_if(|change| change.0 == i) {
                        there.image.add_to(*o, data.rows().row(i), *change);
                    }
                }
            });
            there.conjugates = conjugates(&there.dual);
            Ok(!rows.is_empty())
        })?;
        self.narrow.cost += steps;
        let Some((there, _)) = leap else {
            return Ok(());
        };
        self.dual.promise(WHAT, outputs.len())?;
        self.conjugates += there.conjugates - before;
        for (&i, range) in examples.iter().zip(bounds.windows(2)) {
            let range = range[0]..range[1];
            self.dual.write_few(i as usize, &outputs[range.clone()], &there.dual[range]);
        }
        self.w = there.image;
        Ok(())
    }
}
