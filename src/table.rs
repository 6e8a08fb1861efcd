//! A number for every example and output: what a [`Ledger`](crate::Ledger) has recorded, dual variables.
//!
//! * Few outputs: all numbers, examples x outputs.
//! * Many outputs: of each example those that are not 0, in the order of the outputs. An example of one of 20,000
//!   classes is ever mistaken for a few of them only, so that is what memory and time must depend on.
//! * Either way the same numbers are read, and sums over them run in the same order: no bit depends on the form.

use std::borrow::Cow;

use crate::error::Error;
use crate::memory;
use crate::scalar::{Scalar, others_than_0};
use crate::simd::Places;

/// More outputs than these are many: there an example's own list, with what it costs, is shorter than
/// all its numbers.
pub(crate) const MANY: usize = 64;

/// Numbers, 0 to begin with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table<T> {
    outputs: usize,
    form: Form<T>,
    /// How many numbers the lists hold at most, and for how many there was room.
    promised: usize,
    room: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Form<T> {
    Dense(Vec<T>),
    Sparse(Vec<Vec<(u32, T)>>),
}

impl<T: Scalar> Table<T> {
    /// `what` says whose they are, should there be no room. There must be some for all numbers, lists or not: where
    /// there is none, no example may ever be mistaken for many, and that is nothing to find out after an hour.
    pub(crate) fn new(what: &'static str, len: usize, outputs: usize) -> Result<Self, Error> {
        if outputs > MANY {
            return Table::lists(what, len, outputs);
        }
        let form = Form::Dense(memory::zeros(what, &[len, outputs])?);
        Ok(Table { outputs, form, promised: 0, room: 0 })
    }

    /// As if the outputs were many.
    pub(crate) fn lists(what: &'static str, len: usize, outputs: usize) -> Result<Self, Error> {
        memory::check::<T>(what, &[len, outputs])?;
        let form = Form::Sparse(memory::zeros(what, &[len])?);
        Ok(Table { outputs, form, promised: 0, room: 0 })
    }

    /// Of one output.
    pub(crate) fn column(values: Vec<T>) -> Self {
        Table { outputs: 1, form: Form::Dense(values), promised: 0, room: 0 }
    }

    /// Makes sure that lists can grow by so many numbers, all of them together: none asks when it does.
    #[inline(always)]
    pub(crate) fn promise(&mut self, what: &'static str, more: usize) -> Result<(), Error> {
        if let Form::Sparse(rows) = &self.form {
            let mut promised = self.promised + more;
            if promised > self.room {
                let count: usize = rows.iter().map(Vec::len).sum();
                promised = count + more;
                let room = 2 * promised + 4 * rows.len();
                // Twice, as a list may have room for as many again as it holds.
                memory::check::<(u32, T)>(what, &[2 * (room - count)])?;
                self.room = room;
            }
            self.promised = promised;
        }
        Ok(())
    }

    /// Makes sure that there is room for another.
    pub(crate) fn check_copy(&self, what: &'static str) -> Result<(), Error> {
        match &self.form {
            Form::Dense(values) => memory::check::<T>(what, &[values.len()]),
            Form::Sparse(rows) => {
                let count: usize = rows.iter().map(Vec::len).sum();
                memory::check::<(u32, T)>(what, &[count.saturating_add(2 * rows.len())])
            }
        }
    }

    /// Number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of examples.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match &self.form {
            Form::Dense(values) => values.len() / self.outputs,
            Form::Sparse(rows) => rows.len(),
        }
    }

    /// The numbers of the one output, where there is one.
    pub(crate) fn only(&self) -> Option<&[T]> {
        match &self.form {
            Form::Dense(values) if self.outputs == 1 => Some(values),
            _ => None,
        }
    }

    /// [`only`](Table::only), to write to; nothing where there are others.
    pub(crate) fn only_mut(&mut self) -> &mut [T] {
        match &mut self.form {
            Form::Dense(values) if self.outputs == 1 => values,
            _ => &mut [],
        }
    }

    /// The numbers of example `i`.
    pub(crate) fn row(&self, i: usize) -> Cow<'_, [T]> {
        match &self.form {
            Form::Dense(values) => Cow::Borrowed(&values[i * self.outputs..(i + 1) * self.outputs]),
            Form::Sparse(_) => {
                let mut row = vec![T::default(); self.outputs];
                self.for_each(i, |o, value| row[o] = value);
                Cow::Owned(row)
            }
        }
    }

    /// Those of all examples.
    pub(crate) fn all(&self) -> Cow<'_, [T]> {
        match &self.form {
            Form::Dense(values) => Cow::Borrowed(values),
            Form::Sparse(rows) => (0..rows.len()).flat_map(|i| self.row(i).into_owned()).collect(),
        }
    }

    /// The numbers of example `i` with their outputs; of many outputs, those that are not 0.
    #[inline(always)]
    pub(crate) fn for_each(&self, i: usize, mut f: impl FnMut(usize, T)) {
        match &self.form {
            Form::Dense(values) => {
                let row = &values[i * self.outputs..(i + 1) * self.outputs];
                row.iter().enumerate().for_each(|(o, &value)| f(o, value));
            }
            Form::Sparse(rows) => rows[i].iter().for_each(|&(o, value)| f(o as usize, value)),
        }
    }

    /// Writes `factor` times the numbers of example `i` to `out`.
    #[inline(always)]
    pub(crate) fn read(&self, i: usize, factor: f64, out: &mut [f64]) {
        match &self.form {
            Form::Dense(values) => {
                let row = &values[i * self.outputs..(i + 1) * self.outputs];
                out.iter_mut().zip(row).for_each(|(out, value)| *out = factor * value.to_f64());
            }
            Form::Sparse(rows) => {
                out.fill(0.0);
                rows[i].iter().for_each(|(o, value)| out[*o as usize] = factor * value.to_f64());
            }
        }
    }

    /// `factor` times the numbers of example `i`, each times that of its output, summed.
    #[inline(always)]
    pub(crate) fn dot(&self, i: usize, factor: f64, scores: &[f64]) -> f64 {
        match &self.form {
            Form::Dense(values) => {
                let row = &values[i * self.outputs..(i + 1) * self.outputs];
                row.iter().zip(scores).map(|(value, score)| factor * value.to_f64() * score).sum()
            }
            Form::Sparse(rows) => {
                let products =
                    rows[i].iter().map(|(o, v)| factor * v.to_f64() * scores[*o as usize]);
                products.sum()
            }
        }
    }

    /// Of many outputs, those of the numbers of example `i` that are not 0; of few, none.
    #[inline(always)]
    pub(crate) fn nonzeros(&self, i: usize) -> &[(u32, T)] {
        match &self.form {
            Form::Dense(_) => &[],
            Form::Sparse(rows) => &rows[i],
        }
    }

    /// Whether there are many outputs.
    #[inline(always)]
    pub(crate) fn is_of_many(&self) -> bool {
        matches!(self.form, Form::Sparse(_))
    }

    /// Whether the numbers of example `i` are those of another table of the same form.
    pub(crate) fn agrees(&self, i: usize, other: &Self) -> bool {
        match (&self.form, &other.form) {
            (Form::Dense(values), Form::Dense(others)) => {
                let range = i * self.outputs..(i + 1) * self.outputs;
                values[range.clone()] == others[range]
            }
            (Form::Sparse(rows), Form::Sparse(others)) => rows[i] == others[i],
            _ => false,
        }
    }

    /// Makes the numbers of example `i` those of another table of the same form.
    pub(crate) fn copy(&mut self, i: usize, other: &Self) {
        match (&mut self.form, &other.form) {
            (Form::Dense(values), Form::Dense(others)) => {
                let range = i * self.outputs..(i + 1) * self.outputs;
                values[range.clone()].copy_from_slice(&others[range]);
            }
            (Form::Sparse(rows), Form::Sparse(others)) => rows[i].clone_from(&others[i]),
            _ => {}
        }
    }

    /// Writes the numbers of example `i` for these outputs to `out`. There must be no others that are not 0.
    pub(crate) fn read_few(&self, i: usize, outputs: &[u32], out: &mut [T]) {
        match &self.form {
            Form::Dense(values) => {
                let row = &values[i * self.outputs..(i + 1) * self.outputs];
                out.iter_mut().zip(outputs).for_each(|(out, &o)| *out = row[o as usize]);
            }
            Form::Sparse(rows) => {
                let mut left = rows[i].iter().peekable();
                for (out, &o) in out.iter_mut().zip(outputs) {
                    *out = left.next_if(|entry| entry.0 == o).map_or(T::default(), |entry| entry.1);
                }
            }
        }
    }

    /// Makes these the numbers of example `i`; all outputs that are not 0, or become so, must be among those given.
    pub(crate) fn write_few(&mut self, i: usize, outputs: &[u32], values: &[T]) {
        match &mut self.form {
            Form::Dense(all) => {
                let row = &mut all[i * self.outputs..(i + 1) * self.outputs];
                outputs.iter().zip(values).for_each(|(&o, value)| row[o as usize] = *value);
            }
            Form::Sparse(rows) => {
                let row = &mut rows[i];
                row.clear();
                let nonzeros =
                    outputs.iter().zip(values).filter(|(_, value)| **value != T::default());
                row.extend(nonzeros.map(|(o, value)| (*o, *value)));
            }
        }
    }

    /// Makes these the numbers of example `i`.
    #[inline(always)]
    pub(crate) fn write(&mut self, i: usize, values: &[f64]) {
        match &mut self.form {
            Form::Dense(all) => {
                let row = &mut all[i * self.outputs..(i + 1) * self.outputs];
                row.iter_mut().zip(values).for_each(|(old, value)| *old = T::from_f64(*value));
            }
            Form::Sparse(rows) => {
                let row = &mut rows[i];
                row.clear();
                row.extend(others_than_0(values).map(|(o, value)| (o as u32, T::from_f64(value))));
            }
        }
    }

    /// Adds these, rounded, to the numbers of example `i`.
    #[inline(always)]
    pub(crate) fn add(&mut self, i: usize, values: &[f64]) {
        match &mut self.form {
            Form::Dense(all) => {
                let row = &mut all[i * self.outputs..(i + 1) * self.outputs];
                row.iter_mut().zip(values).for_each(|(sum, v)| *sum = plus(*sum, T::from_f64(*v)));
            }
            Form::Sparse(rows) => {
                for (o, value) in others_than_0(values) {
                    add_to(&mut rows[i], o as u32, T::from_f64(value));
                }
            }
        }
    }

    /// Adds all numbers of another of the same shape.
    pub(crate) fn add_all(&mut self, other: &Table<T>) {
        match (&mut self.form, &other.form) {
            // The usual case, in one loop that the compiler can take several numbers of at a time.
            (Form::Dense(all), Form::Dense(others)) => {
                all.iter_mut().zip(others).for_each(|(sum, value)| *sum = plus(*sum, *value));
            }
            (Form::Dense(all), _) => {
                for (i, row) in all.chunks_mut(self.outputs).enumerate() {
                    other.for_each(i, |o, value| row[o] = plus(row[o], value));
                }
            }
            (Form::Sparse(rows), _) => {
                for (i, row) in rows.iter_mut().enumerate() {
                    other.for_each(i, |o, value| add_to(row, o as u32, value));
                }
            }
        }
    }

    /// Where the numbers of examples stand, or their lists.
    pub(crate) fn places(&self) -> Places {
        match &self.form {
            Form::Dense(values) => Places::of(values, self.outputs),
            Form::Sparse(rows) => Places::of(rows, 1),
        }
    }
}

fn add_to<T: Scalar>(row: &mut Vec<(u32, T)>, o: u32, value: T) {
    match row.binary_search_by_key(&o, |entry| entry.0) {
        Ok(at) => row[at].1 = plus(row[at].1, value),
        Err(at) => row.insert(at, (o, value)),
    }
}

/// The sum, rounded to T: f64 holds enough digits more than f32 for the roundings of both to be one.
#[inline(always)]
fn plus<T: Scalar>(a: T, b: T) -> T {
    T::from_f64(a.to_f64() + b.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms hold the same numbers, whatever is done to them.
    #[test]
    fn forms_agree() {
        let few = MANY + 1;
        let mut table = Table::<f32>::new("t", 3, few).unwrap();
        let mut plain = vec![0.0_f32; 3 * few];
        let mut values = vec![0.0; few];
        for round in 0..200 {
            let (i, o, value) = (round % 3, round * 7 % few, (round as f64 - 90.0) / 7.0);
            values[o] = value;
            values[round * 5 % few] -= 0.1;
            let row = &mut plain[i * few..(i + 1) * few];
            if round % 11 == 0 {
                table.write(i, &values);
                row.iter_mut().zip(&values).for_each(|(old, value)| *old = *value as f32);
            } else {
                table.add(i, &values);
                row.iter_mut().zip(&values).for_each(|(old, value)| *old += *value as f32);
            }
            if round % 4 == 0 {
                values.fill(0.0);
            }
        }
        assert_eq!((table.len(), &*table.all()), (3, &plain[..]));
        let scores: Vec<f64> = (0..few).map(|o| (o as f64).sin()).collect();
        let mut out = vec![0.0; few];
        for (i, row) in plain.chunks(few).enumerate() {
            assert_eq!(&*table.row(i), row);
            let dot: f64 = row.iter().zip(&scores).map(|(a, s)| f64::from(*a) * s).sum();
            assert_eq!(table.dot(i, 1.0, &scores), dot);
            table.read(i, 3.0, &mut out);
            assert!(out.iter().zip(row).all(|(out, value)| *out == 3.0 * f64::from(*value)));
        }
        let other = table.clone();
        table.add_all(&other);
        assert!(table.all().iter().zip(&plain).all(|(twice, once)| *twice == 2.0 * once));
    }
}
