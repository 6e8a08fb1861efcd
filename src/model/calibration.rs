//! Probabilities of classes, given their scores, by a map that was learned elsewhere.
//!
//! "sigmoid" is Platt's, `1/(1 + exp(a s + b))` of each score; "isotonic" a rising function, linear between thresholds;
//! "temperature" the softmax of all scores over one number, the logistic function where there is one score or one for each
//! pair. Probabilities of pairs are coupled as in T.-F. Wu, C.-J. Lin, R. Weng (JMLR 5, 2004), equation 21, those of one
//! class against the others scaled to a sum of 1. O(classes) a row, O(classes^3) where there are pairs.

use super::file::broken;
use crate::error::Error;

/// No pair of classes is surer than this: beyond it the equations of all pairs have no digits left.
const SUREST: f64 = 1e-6;

/// The map of one score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Map {
    Sigmoid { a: f64, b: f64 },
    Isotonic { thresholds: Vec<f64>, values: Vec<f64> },
}

/// The maps of all scores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Calibration {
    Temperature(f64),
    Each(Vec<Map>),
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Map {
    fn isotonic(thresholds: Vec<f64>, values: Vec<f64>) -> Result<Self, Error> {
        let rises = |numbers: &[f64]| numbers.is_sorted() && !numbers.is_empty();
        let probable = values.iter().all(|p| (0.0..=1.0).contains(p));
        // Else the place between two of them could be no number.
        let spans = |numbers: &[f64]| (numbers[numbers.len() - 1] - numbers[0]).is_finite();
        if !(rises(&thresholds)
            && rises(&values)
            && probable
            && thresholds.len() == values.len()
            && spans(&thresholds))
        {
            return Err(broken("an isotonic calibration must rise from 0 to 1"));
        }
        Ok(Map::Isotonic { thresholds, values })
    }

    fn probability(&self, score: f64) -> f64 {
        match self {
            Map::Sigmoid { a, b } => logistic(-(a * score + b)),
            Map::Isotonic { thresholds, values } => {
                let after = thresholds.partition_point(|threshold| *threshold <= score);
                match (after.checked_sub(1), thresholds.get(after)) {
                    (None, _) => values[0],
                    (Some(last), None) => values[last],
                    (Some(before), Some(end)) => {
                        let slope = (values[after] - values[before]) / (end - thresholds[before]);
                        values[before] + slope * (score - thresholds[before])
                    }
                }
            }
        }
    }
}

impl Calibration {
    /// The logistic functions of scores that are log odds.
    pub(super) fn of_log_loss(outputs: usize) -> Self {
        Calibration::Each(vec![Map::Sigmoid { a: -1.0, b: 0.0 }; outputs])
    }

    /// By this method, from the numbers that it has learned: one array for each of `outputs` scores, or for all.
    pub(crate) fn new(
        method: &str,
        parts: &[(Vec<usize>, &[f64])],
        outputs: usize,
    ) -> Result<Self, Error> {
        let foreign =
            || broken(format!("its calibration by {method:?} does not belong to {outputs} scores"));
        match (method, parts) {
            ("temperature", [(_, [beta])]) => Ok(Calibration::Temperature(*beta)),
            ("sigmoid" | "isotonic", parts) if parts.len() == outputs => {
                let maps =
                    parts.iter().map(|(shape, numbers)| match (method, &shape[..], numbers) {
                        ("sigmoid", [2], [a, b]) => Ok(Map::Sigmoid { a: *a, b: *b }),
                        ("isotonic", [2, n], numbers) if numbers.len() == 2 * n => {
                            Map::isotonic(numbers[..*n].to_vec(), numbers[*n..].to_vec())
                        }
                        _ => Err(foreign()),
                    });
                Ok(Calibration::Each(maps.collect::<Result<_, _>>()?))
            }
            _ => Err(foreign()),
        }
    }

    /// Writes the probability of each class, given the scores of a row, which are those of `pairs` of classes or not.
    pub(crate) fn probabilities(&self, scores: &[f64], pairs: bool, out: &mut [f64]) {
        let each: Vec<f64> = match self {
            Calibration::Temperature(beta) if scores.len() > 1 && !pairs => {
                let largest = scores.iter().fold(f64::NEG_INFINITY, |most, s| most.max(beta * s));
                scores.iter().map(|s| (beta * s - largest).exp()).collect()
            }
            Calibration::Temperature(beta) => scores.iter().map(|s| logistic(beta * s)).collect(),
            Calibration::Each(maps) => {
                maps.iter().zip(scores).map(|(map, s)| map.probability(*s)).collect()
            }
        };
        match each[..] {
            [p] if out.len() == 2 => out.copy_from_slice(&[1.0 - p, p]),
            _ if pairs => couple(&each, out),
            _ => {
                let total: f64 = each.iter().sum();
                let share = |p| if total > 0.0 { p / total } else { 1.0 / out.len() as f64 };
                let shares: Vec<f64> = each.iter().map(|p| share(*p)).collect();
                out.copy_from_slice(&shares);
            }
        }
    }
}

/// Writes probabilities of classes, given for each pair that of the first.
fn couple(pairs: &[f64], out: &mut [f64]) {
    let k = out.len();
    let mut r = vec![0.0; k * k];
    let mut all = pairs.iter();
    for i in 0..k {
        for j in i + 1..k {
            let p = all.next().map_or(0.5, |p| p.clamp(SUREST, 1.0 - SUREST));
            (r[i * k + j], r[j * k + i]) = (p, 1.0 - p);
        }
    }
    // The least sum of squares of what the pairs disagree by, and a multiplier for the sum of 1.
    let n = k + 1;
    let mut system = vec![0.0; n * (n + 1)];
    for i in 0..k {
        for j in 0..k {
            system[i * (n + 1) + j] = match i == j {
                true => (0..k).map(|c| r[c * k + i] * r[c * k + i]).sum(),
                false => -r[i * k + j] * r[j * k + i],
            };
        }
        system[i * (n + 1) + k] = 1.0;
        system[k * (n + 1) + i] = 1.0;
    }
    system[k * (n + 1) + n] = 1.0;
    let solved = solve(&mut system, n);
    let total: f64 = solved[..k].iter().map(|p| p.max(0.0)).sum();
    for (out, p) in out.iter_mut().zip(&solved) {
        *out = p.max(0.0) / total;
    }
}

/// The solution of n linear equations, each a row of n coefficients and what they come to: elimination with pivots.
fn solve(system: &mut [f64], n: usize) -> Vec<f64> {
    let width = n + 1;
    for column in 0..n {
        let size = |row: &usize| system[row * width + column].abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        for j in 0..width {
            system.swap(column * width + j, pivot * width + j);
        }
        for row in column + 1..n {
            let factor = system[row * width + column] / system[column * width + column];
            for j in column..width {
                system[row * width + j] -= factor * system[column * width + j];
            }
        }
    }
    let mut solved = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|j| system[row * width + j] * solved[j]).sum();
        solved[row] = (system[row * width + n] - known) / system[row * width + row];
    }
    solved
}
