//! Coefficients of support vectors for each output, and their averages: `v` and `u` of [`Scaled`](crate::scaled::Scaled).
//!
//! * Few outputs: chunk after chunk of vectors, within it output after output, as products with kernel values want them.
//! * More than [`FEW`]: of each vector those that there are, in the order of the outputs. Of pairs of K classes a vector has K - 1
//!   of K (K - 1)/2: with 200 classes and 10,000 vectors all would be 1.6 GB, and 1% of them differ from 0.
//! * Either way the same numbers are read: no coefficient depends on the form.

use crate::error::Error;
use crate::memory;
use crate::scalar::Scalar;
use crate::scaled::{Fold, Scaled};
use crate::vectors::CHUNK;

/// Of so many outputs a vector has coefficients for all.
pub(super) const FEW: usize = 32;

const WHAT: &str = "the coefficients";
const WHAT_AVERAGE: &str = "the average of the coefficients";

#[derive(Clone, Debug)]
pub(super) struct Coefs<S> {
    outputs: usize,
    /// How many vectors there are.
    len: usize,
    form: Form<S>,
    /// Whether there are averages.
    averages: bool,
}

#[derive(Clone, Debug)]
enum Form<S> {
    /// Zeros up to the end of the last chunk; no u as long as nothing is averaged.
    Chunks {
        v: Vec<S>,
        u: Vec<f64>,
    },
    Lists(Vec<Vec<Entry<S>>>),
}

/// A coefficient of a vector.
#[derive(Clone, Copy, Debug)]
struct Entry<S> {
    output: u32,
    v: S,
    u: f64,
}

impl<S: Scalar> Coefs<S> {
    /// Of no vector.
    pub fn new(outputs: usize) -> Self {
        let form = match outputs > FEW {
            true => Form::Lists(Vec::new()),
            false => Form::Chunks { v: Vec::new(), u: Vec::new() },
        };
        Coefs { outputs, len: 0, form, averages: false }
    }

    /// Whether a vector may have coefficients for some outputs alone.
    pub fn are_lists(&self) -> bool {
        matches!(self.form, Form::Lists(_))
    }

    /// All, chunk after chunk, unless they are lists.
    pub fn chunks(&self) -> Option<&[S]> {
        match &self.form {
            Form::Chunks { v, .. } => Some(v),
            Form::Lists(_) => None,
        }
    }

    /// How many there are, those of padding included.
    pub fn count(&self) -> usize {
        match &self.form {
            Form::Chunks { v, .. } => v.len(),
            Form::Lists(lists) => lists.iter().map(Vec::len).sum(),
        }
    }

    fn place(&self, slot: usize, output: usize) -> usize {
        (slot / CHUNK * self.outputs + output) * CHUNK + slot % CHUNK
    }

    /// Calls `f(output, v, u)` for the outputs of a vector in their order: all, or those that it has coefficients for.
    pub fn for_each(&self, slot: usize, mut f: impl FnMut(usize, S, f64)) {
        match &self.form {
            Form::Chunks { v, u } => {
                for o in 0..self.outputs {
                    let place = self.place(slot, o);
                    f(o, v[place], u.get(place).copied().unwrap_or(0.0));
                }
            }
            Form::Lists(lists) => {
                lists[slot].iter().for_each(|entry| f(entry.output as usize, entry.v, entry.u));
            }
        }
    }

    /// Calls `f` with every v, in an order that depends on nothing but their shape.
    pub fn for_all(&self, mut f: impl FnMut(S)) {
        match &self.form {
            Form::Chunks { v, .. } => v.iter().for_each(|v| f(*v)),
            Form::Lists(lists) => lists.iter().flatten().for_each(|entry| f(entry.v)),
        }
    }

    /// Another vector, without coefficients.
    pub fn push(&mut self) {
        self.len += 1;
        let size = self.len.div_ceil(CHUNK) * CHUNK * self.outputs;
        match &mut self.form {
            Form::Chunks { v, u } => {
                v.resize(size, S::default());
                if self.averages {
                    u.resize(size, 0.0);
                }
            }
            Form::Lists(lists) => lists.push(Vec::new()),
        }
    }

    /// What stands for an output of a vector, to be changed: v, and u where there is one.
    fn entry(&mut self, slot: usize, output: usize) -> (&mut S, Option<&mut f64>) {
        let place = self.place(slot, output);
        match &mut self.form {
            Form::Chunks { v, u } => (&mut v[place], u.get_mut(place)),
            Form::Lists(lists) => {
                let list = &mut lists[slot];
                let output = output as u32;
                let at = list.binary_search_by_key(&output, |entry| entry.output);
                let at = at.unwrap_or_else(|at| {
                    list.insert(at, Entry { output, v: S::default(), u: 0.0 });
                    at
                });
                let Entry { v, u, .. } = &mut list[at];
                (v, self.averages.then_some(u))
            }
        }
    }

    /// Writes v, and u where there are averages.
    pub fn set(&mut self, slot: usize, output: usize, v: S, u: f64) {
        if self.are_lists() && v == S::default() && u == 0.0 {
            return;
        }
        let (to_v, to_u) = self.entry(slot, output);
        *to_v = v;
        if let Some(to_u) = to_u {
            *to_u = u;
        }
    }

    /// `v += c`, `u += A` times the change; returns by how much v really rose.
    pub fn raise(&mut self, slot: usize, output: usize, c: f64, sum_a: f64) -> f64 {
        let (v, u) = self.entry(slot, output);
        let old = v.to_f64();
        *v = S::from_f64(old + c);
        let change = v.to_f64() - old;
        if let Some(u) = u {
            *u += sum_a * change;
        }
        change
    }

    /// Makes room for so many more vectors, with so many coefficients together at most.
    pub fn reserve(&mut self, more: usize, coefs: usize) -> Result<(), Error> {
        let size = (self.len + more).div_ceil(CHUNK).saturating_mul(CHUNK);
        let size = size.saturating_mul(self.outputs);
        match &mut self.form {
            Form::Chunks { v, u } => {
                memory::reserve(WHAT, v, size)?;
                match self.averages {
                    true => memory::reserve(WHAT_AVERAGE, u, size),
                    false => memory::check::<f64>(WHAT_AVERAGE, &[size]),
                }
            }
            Form::Lists(lists) => {
                let size = self.len + more;
                memory::reserve(WHAT, lists, size)?;
                // A list that grows has room for as many again.
                memory::check::<Entry<S>>(WHAT, &[2, coefs])
            }
        }
    }

    /// Makes room for exactly so many coefficients of a vector that has none.
    pub fn reserve_of(&mut self, slot: usize, coefs: usize) {
        if let Form::Lists(lists) = &mut self.form {
            lists[slot].reserve_exact(coefs);
        }
    }

    pub fn check_copy(&self) -> Result<(), Error> {
        match &self.form {
            Form::Chunks { v, u } => {
                memory::check::<S>("a copy of w", &[2, v.len()])?;
                memory::check::<f64>("a copy of the average of w", &[u.len()])
            }
            Form::Lists(lists) => {
                memory::check::<Vec<Entry<S>>>("a copy of w", &[lists.len()])?;
                memory::check::<Entry<S>>("a copy of w", &[2, self.count()])
            }
        }
    }

    pub fn fold(&mut self, fold: &Fold) {
        match &mut self.form {
            Form::Chunks { v, u } => fold.apply(v, u),
            Form::Lists(lists) => {
                for Entry { v, u, .. } in lists.iter_mut().flatten() {
                    let own = if self.averages { std::slice::from_mut(u) } else { &mut [] };
                    fold.apply(std::slice::from_mut(v), own);
                }
            }
        }
    }

    /// From here on there are averages, which are 0; or there are none.
    pub fn average(&mut self, averages: bool) {
        if averages == self.averages {
            return;
        }
        self.averages = averages;
        match &mut self.form {
            Form::Chunks { v, u } => *u = if averages { vec![0.0; v.len()] } else { Vec::new() },
            Form::Lists(lists) => lists.iter_mut().flatten().for_each(|entry| entry.u = 0.0),
        }
    }

    /// `u *= c`.
    pub fn scale_averages(&mut self, c: f64) {
        match &mut self.form {
            Form::Chunks { u, .. } => u.iter_mut().for_each(|u| *u *= c),
            Form::Lists(lists) => lists.iter_mut().flatten().for_each(|entry| entry.u *= c),
        }
    }

    /// The means, in place of v, without averages.
    pub fn into_means(mut self, scale: &Scaled) -> Self {
        let mean = |v: S, u: f64| S::from_f64(scale.mean(v.to_f64(), u));
        match &mut self.form {
            Form::Chunks { v, u } => v.iter_mut().zip(&*u).for_each(|(v, u)| *v = mean(*v, *u)),
            Form::Lists(lists) => {
                lists.iter_mut().flatten().for_each(|entry| entry.v = mean(entry.v, entry.u));
            }
        }
        self.average(false);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms hold the same numbers, whatever is done to them.
    #[test]
    fn forms_agree() {
        const VECTORS: usize = CHUNK + 3;
        // The same outputs, and many more that nobody asks for.
        let (mut few, mut many) = (Coefs::<f32>::new(5), Coefs::<f32>::new(FEW + 1));
        assert!(!few.are_lists() && many.are_lists());
        let both = |few: &Coefs<f32>, many: &Coefs<f32>| {
            for slot in 0..VECTORS {
                let mut rows = [[(0.0, 0.0); 5]; 2];
                few.for_each(slot, |o, v, u| rows[0][o] = (v, u));
                many.for_each(slot, |o, v, u| rows[1][o] = (v, u));
                assert_eq!(rows[0], rows[1], "{slot}");
            }
        };
        for slot in 0..VECTORS {
            for coefs in [&mut few, &mut many] {
                coefs.push();
                coefs.set(slot, slot % 5, slot as f32 / 7.0, 0.0);
            }
        }
        let mut sum_a = 0.0;
        for round in 0..4000 {
            let (slot, o, c) = (round * 7 % VECTORS, round * 3 % 5, (round as f64).sin());
            let changes = [&mut few, &mut many].map(|coefs| {
                if round == 1000 {
                    coefs.average(true);
                }
                coefs.raise(slot, o, c, sum_a)
            });
            assert_eq!(changes[0], changes[1]);
            if round >= 1000 {
                sum_a += 0.25;
            }
            if round % 1500 == 1400 {
                let mut scale = Scaled { a: 0.5, sum_a, ..Scaled::default() };
                let fold = scale.fold(1.0);
                sum_a = 0.0;
                few.fold(&fold);
                many.fold(&fold);
                few.scale_averages(0.75);
                many.scale_averages(0.75);
            }
        }
        both(&few, &many);
        let mut sums = [0.0; 2];
        few.for_all(|v| sums[0] += f64::from(v.abs()));
        many.for_all(|v| sums[1] += f64::from(v.abs()));
        assert!((sums[0] - sums[1]).abs() <= 1e-12 * sums[0]);
        let scale = Scaled { sum_a, sum_q: 3.0, ..Scaled::default() };
        both(&few.clone().into_means(&scale), &many.clone().into_means(&scale));
        few.average(false);
        many.average(false);
        both(&few, &many);
        // Of many outputs none is there that nobody has set.
        assert!(many.count() <= 5 * VECTORS);
    }
}
