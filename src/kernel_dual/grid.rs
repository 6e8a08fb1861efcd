//! A number for every example of every problem: dual variables, scores.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::memory;
use crate::vectors::CHUNK;

const NOWHERE: u32 = u32::MAX;

/// Where the numbers of grids stand: of [`CHUNK`] places those of an output side by side, then those of the next output which any
/// of these places concerns. Examples stand class after class, so that of pairs of many classes a chunk has few of all outputs:
/// with 200 classes one in twenty.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub outputs: usize,
    /// The outputs that each chunk has, chunk after chunk, and where those of a chunk begin, and end.
    present: Vec<u32>,
    starts: Vec<usize>,
    /// Chunks x outputs: which of its own outputs it is; empty where all chunks have all.
    columns: Vec<u32>,
}

impl Shape {
    /// Of so many places and outputs; of each output the places that it concerns, if it is not all.
    pub fn new(places: usize, outputs: usize, spans: &[&[Range<usize>]]) -> Result<Self, Error> {
        let chunks = places.div_ceil(CHUNK);
        let is_all = |own: &&[Range<usize>]| matches!(own, [span] if *span == (0..places));
        let all = spans.len() < outputs || spans.iter().all(is_all);
        let mut shape =
            Shape { outputs, present: Vec::new(), starts: vec![0], columns: Vec::new() };
        if all {
            memory::check::<u32>("the outputs of examples", &[chunks, outputs])?;
            for chunk in 1..=chunks {
                shape.present.extend(0..outputs as u32);
                shape.starts.push(chunk * outputs);
            }
            return Ok(shape);
        }
        shape.columns = memory::zeros("the outputs of examples", &[chunks, outputs])?;
        shape.columns.fill(NOWHERE);
        for (o, own) in spans.iter().enumerate() {
            for span in own.iter().filter(|span| !span.is_empty()) {
                for chunk in span.start / CHUNK..(span.end - 1) / CHUNK + 1 {
                    shape.columns[chunk * outputs + o] = 0;
                }
            }
        }
        for columns in shape.columns.chunks_mut(outputs) {
            let present = (0..).zip(columns).filter(|(_, column)| **column != NOWHERE);
            for (count, (o, column)) in (0..).zip(present) {
                *column = count;
                shape.present.push(o);
            }
            shape.starts.push(shape.present.len());
        }
        Ok(shape)
    }

    /// Which of its outputs this is for a chunk, if it has it.
    pub fn column(&self, chunk: usize, o: usize) -> Option<usize> {
        match self.columns.get(chunk * self.outputs + o) {
            None => Some(o),
            Some(&NOWHERE) => None,
            Some(&column) => Some(column as usize),
        }
    }

    /// The outputs that a chunk has.
    pub fn outputs_of(&self, chunk: usize) -> &[u32] {
        &self.present[self.starts[chunk]..self.starts[chunk + 1]]
    }
}

/// A number for every place and output that concerns it; 0 for the others.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub shape: Arc<Shape>,
    pub values: Vec<f64>,
}

impl Grid {
    pub fn new(what: &'static str, shape: Arc<Shape>) -> Result<Self, Error> {
        let values = memory::zeros(what, &[shape.present.len(), CHUNK])?;
        Ok(Grid { shape, values })
    }

    /// Where the number of an output for a place stands, if there is one.
    pub fn at(&self, o: usize, place: usize) -> Option<usize> {
        let chunk = place / CHUNK;
        let column = self.shape.column(chunk, o)?;
        Some((self.shape.starts[chunk] + column) * CHUNK + place % CHUNK)
    }

    pub fn get(&self, o: usize, place: usize) -> f64 {
        self.at(o, place).map_or(0.0, |at| self.values[at])
    }

    /// Makes it this number, where there is one.
    pub fn set(&mut self, o: usize, place: usize, value: f64) {
        if let Some(at) = self.at(o, place) {
            self.values[at] = value;
        }
    }

    /// What is not 0, with its place and output.
    pub fn nonzeros(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let chunks = 0..self.shape.starts.len() - 1;
        let columns = chunks.flat_map(|chunk| {
            self.shape.outputs_of(chunk).iter().map(move |&o| (chunk, o as usize))
        });
        columns.zip(self.values.chunks(CHUNK)).flat_map(|((chunk, o), column)| {
            let own = column.iter().enumerate().filter(|(_, value)| **value != 0.0);
            own.map(move |(place, &value)| (chunk * CHUNK + place, o, value))
        })
    }

    /// Writes what all outputs have at a place.
    pub fn read(&self, place: usize, out: &mut [f64]) {
        let chunk = place / CHUNK;
        out.fill(0.0);
        let columns = self.values[self.shape.starts[chunk] * CHUNK..].chunks(CHUNK);
        for (&o, column) in self.shape.outputs_of(chunk).iter().zip(columns) {
            out[o as usize] = column[place % CHUNK];
        }
    }

    /// The numbers of each chunk from the first one on.
    pub fn chunks_mut(&mut self, first: usize) -> impl Iterator<Item = (usize, &mut [f64])> {
        let starts = &self.shape.starts;
        let mut rest = &mut self.values[starts[first.min(starts.len() - 1)] * CHUNK..];
        starts.windows(2).enumerate().skip(first).map(move |(chunk, own)| {
            let (numbers, others) =
                std::mem::take(&mut rest).split_at_mut((own[1] - own[0]) * CHUNK);
            rest = others;
            (chunk, numbers)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number that any output has a place for is found again, by every way to look.
    #[test]
    fn all_ways_lead_to_the_same_numbers() {
        let places = 3 * CHUNK + 17;
        let pairs: Vec<Vec<Range<usize>>> = vec![
            vec![0..300],
            vec![0..40, 600..places],
            vec![40..600],
            vec![300..700],
            vec![CHUNK..2 * CHUNK],
            Vec::new(),
        ];
        let spans: Vec<&[Range<usize>]> = pairs.iter().map(|own| &own[..]).collect();
        let some = Shape::new(places, pairs.len(), &spans).expect("room");
        let all = Shape::new(places, pairs.len(), &[]).expect("room");
        assert!(some.present.len() < all.present.len());
        let mut grids = [some, all].map(|shape| Grid::new("t", shape.into()).expect("room"));
        let own = |o: usize| pairs[o].iter().cloned().flatten();
        for grid in &mut grids {
            for o in 0..pairs.len() {
                for place in own(o) {
                    assert_eq!(grid.get(o, place), 0.0);
                    grid.set(o, place, (1 + place * pairs.len() + o) as f64);
                }
            }
        }
        let [some, all] = &mut grids;
        let (mut row, mut other) = ([7.0; 6], [8.0; 6]);
        for place in 0..places {
            some.read(place, &mut row);
            all.read(place, &mut other);
            assert_eq!(row, other);
        }
        for o in 0..pairs.len() {
            assert!(own(o).all(|place| some.get(o, place) == all.get(o, place)));
        }
        let nonzeros = |grid: &Grid| grid.nonzeros().collect::<Vec<_>>();
        assert_eq!(nonzeros(some), nonzeros(all));
        for first in 0..=4 {
            let found = some.chunks_mut(first).map(|(chunk, own)| (chunk, own.to_vec()));
            let found: Vec<_> = found.collect();
            assert_eq!(found.len(), 4 - first);
            for (chunk, numbers) in found {
                let outputs = some.shape.outputs_of(chunk);
                assert_eq!(numbers.len(), outputs.len() * CHUNK);
                for (&o, column) in outputs.iter().zip(numbers.chunks(CHUNK)) {
                    let at = some.at(o as usize, chunk * CHUNK).expect("there");
                    assert_eq!(column, &some.values[at..at + CHUNK]);
                }
            }
        }
    }
}
