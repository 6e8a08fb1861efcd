//! Steps where features are many: by conjugate gradients, which need products with the curvature, a pass each, and not itself.
//!
//! How many passes they take nobody knows beforehand, and dual ascent may need fewer: of images of digits (784 features) it takes
//! some 17 epochs, a leap 90 passes and more. What tells the two apart is how evenly rows spread over their directions. Where they
//! do, the curvature's eigenvalues are alike, and every product takes a good part of the way; dual ascent, whose examples
//! then all have a little to say in everything, needs hundreds of epochs. In trials with standardised tables of `make_classification`,
//! `lambda n = 1`, passes of a leap to a gap of 1e-3, and epochs:
//!
//! | rows, features | evenness | passes: logistic, squared hinge | epochs |
//! |---|---|---|---|
//! | 5,000 x 1,000 | 0.7, 0.5 | 57, 62 | 100 leave a gap of 0.06, 0.14 |
//! | 20,000 x 400 | 0.7 | 50, 53 | 100 leave 0.02; 78 |
//! | 4,324 x 342 | 0.7 | 35, 41 | 92; 100 leave 0.003 |
//! | 5,000 x 300, 220 of them of 20 directions | 0.09 | 60, 63 | 100 leave 0.009; 73 |
//! | 2,000 x 1,000 | 0.7 | 100, 200 | 33, 42 |
//! | digits, standardised, 5,000 x 784 | 0.11 | 130, 210 | 18 |
//! | digits as they are | 0.04 | 90, 216 | 16, 9 |
//!
//! Where rows are sparse, and for the smoothed hinge, a leap is for what twenty epochs have not done, where they are uneven for what
//! some fifty have not, as of images (60,000 x 784: 22 to 53 for each digit against the others): of one-hot columns and
//! counts, which have more rows than features, and of rows of few directions ascent leaves most where lambda is small. Milliseconds to a
//! gap of 1e-3, and the gap that 100 epochs leave with the milliseconds that they take, on an AMD EPYC (squared hinge; logistic; hinge):
//!
//! | rows, features, `1/(lambda n)` | with a leap | without |
//! |---|---|---|
//! | one-hot, 30,000 x 660, 100 | 120; 180; 370 | 0.70 in 170; 0.010 in 475; 0.80 in 140 |
//! | counts, 30,000 x 3,000, 1 | 170; 290; 415 | 0.88 in 330; 0.29 in 800; 0.91 in 350 |

use super::{LARGEST, inner};
use crate::examples::Examples;
use crate::scalar::Scalar;

/// How many rows there must be for each feature.
const TALL: usize = 4;

/// Leaps are made late where rows are not as even as that; and sooner, where they are as even as this.
const UNEVEN: f64 = 0.06;
const EVEN: f64 = 0.3;

/// About how many epochs of dual ascent take as long as a leap, in each case: a pass takes half of one.
const SHORT: f64 = 30.0;
const LONG: f64 = 100.0;
const LONGER: f64 = 300.0;

/// Of how many pairs of differences between rows evenness is the mean.
const PAIRS: usize = 32;

/// The part of the gradient that a step leaves, where the curvature stays what it is. With a half there were up to 1.6 times as many
/// passes in all, with a twentieth as many.
const ROUGH: f64 = 0.1;

/// Products of a step: at most; and as many as take no more multiplications than this, as nobody can interrupt a step.
const MOST_PRODUCTS: usize = 30;
const FEWEST_PRODUCTS: usize = 4;
const AT_ONCE: usize = 1 << 29;

/// A leap that has taken so many passes gets no further step.
pub(super) const MOST_PASSES: f64 = 300.0;

/// About how many epochs a leap takes as long as, for a loss with curvature of its own or without; infinite where there is none to
/// make.
pub(super) fn epochs<S: Scalar>(data: &Examples<'_, S>, features: usize, curved: bool) -> f64 {
    let sparse = data.rows().is_sparse();
    let least = if sparse { features } else { TALL * features };
    if data.len() < least || size(data, features) > LARGEST {
        f64::INFINITY
    } else if sparse {
        LONG
    } else {
        match evenness(data, features) {
            evenness if evenness >= EVEN && curved => SHORT,
            evenness if evenness >= UNEVEN => LONG,
            _ => LONGER,
        }
    }
}

/// How many features the rows store.
pub(super) fn size<S: Scalar>(data: &Examples<'_, S>, features: usize) -> usize {
    let of_a_row = if data.rows().is_sparse() { data.rows().stored_in_a_row() } else { features };
    data.len().saturating_mul(of_a_row)
}

/// Over how many of the directions rows spread, about, of all: the cosines between differences of rows have a mean square of one
/// over that number.
fn evenness<S: Scalar>(data: &Examples<'_, S>, features: usize) -> f64 {
    let (mut one, mut other) = (vec![0.0; features], vec![0.0; features]);
    let mut squares = 0.0;
    for k in 0..PAIRS {
        let row =
            |quarter: usize| data.rows().row(((quarter * PAIRS + k) * data.len()) / (4 * PAIRS));
        for (difference, quarter) in [(&mut one, 0), (&mut other, 1)] {
            difference.fill(0.0);
            row(quarter).add_times(1.0, difference);
            row(quarter + 2).add_times(-1.0, difference);
        }
        let norms = inner(&one, &one) * inner(&other, &other);
        // Rows that are alike tell nothing of an even spread.
        squares += if norms > 0.0 { inner(&one, &other).powi(2) / norms } else { 1.0 };
    }
    PAIRS as f64 / squares / features as f64
}

/// About the solution of `matrix x = b`, of which there are products, and how many it took; the matrix is about this diagonal one, up
/// to what products tell.
pub(super) fn solve(
    size: usize,
    diagonal: &[f64],
    b: &[f64],
    product: impl Fn(&[f64]) -> Vec<f64>,
) -> (Vec<f64>, usize) {
    let scaled =
        |rest: &[f64]| -> Vec<f64> { rest.iter().zip(diagonal).map(|(r, d)| r / d).collect() };
    let (mut x, mut rest) = (vec![0.0; b.len()], b.to_vec());
    let mut way = scaled(&rest);
    let mut square = inner(&rest, &way);
    let enough = ROUGH * ROUGH * square;
    let mut products = 0;
    for _ in 0..(AT_ONCE / size.max(1)).clamp(FEWEST_PRODUCTS, MOST_PRODUCTS) {
        if square <= enough {
            break;
        }
        let along = product(&way);
        products += 1;
        let t = square / inner(&way, &along);
        if !(t > 0.0 && t.is_finite()) {
            break;
        }
        x.iter_mut().zip(&way).for_each(|(x, w)| *x += t * w);
        rest.iter_mut().zip(&along).for_each(|(r, a)| *r -= t * a);
        let next = scaled(&rest);
        let before = std::mem::replace(&mut square, inner(&rest, &next));
        let turn = square / before;
        way.iter_mut().zip(&next).for_each(|(w, z)| *w = z + turn * *w);
    }
    (x, products)
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::data::Dense;

    /// Numbers around 0, about as of a normal distribution.
    fn numbers(n: usize) -> Vec<f64> {
        let mut rng = Pcg64::new(1, 2);
        let mut draw = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        (0..n).map(|_| draw() + draw() + draw() + draw()).collect()
    }

    #[test]
    fn rows_that_spread_and_rows_that_do_not() {
        let (n, d) = (4000, 300);
        let y = vec![0; n];
        let x = numbers(n * d);
        // Ten directions, and a little of all others; all of it far from 0.
        let directions = numbers(10 * d);
        let mut flat = numbers(n * d);
        for (i, row) in flat.chunks_mut(d).enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                let sum: f64 = (0..10).map(|k| x[i * d + k] * directions[k * d + j]).sum();
                *value = 100.0 + sum + 0.1 * *value;
            }
        }
        let of = |x: &[f64], n: usize| {
            let data =
                Examples::new(Dense::new(&x[..n * d], n, d).unwrap(), &y[..n], None).unwrap();
            (evenness(&data, d), epochs(&data, d, true))
        };
        let (even, uneven) = (of(&x, n), of(&flat, n));
        assert!((0.6..1.6).contains(&even.0) && even.1 == SHORT, "{even:?}");
        assert!((0.02..0.05).contains(&uneven.0) && uneven.1 == LONGER, "{uneven:?}");
        // Too few rows, and rows that are all alike.
        assert_eq!(of(&x, TALL * d - 1).1, f64::INFINITY);
        assert!(of(&vec![1.0; n * d], n).0 <= 1.0 / d as f64);
    }

    #[test]
    fn solutions_leave_a_tenth() {
        let d = 40;
        let b = numbers(d);
        let root = numbers(d * d);
        let diagonal: Vec<f64> = (0..d).map(|j| if j % 2 == 0 { 100.0 } else { 1.0 }).collect();
        let product = |v: &[f64]| -> Vec<f64> {
            let half: Vec<f64> = root.chunks(d).map(|row| inner(row, v) / d as f64).collect();
            let mut out: Vec<f64> = diagonal.iter().zip(v).map(|(d, v)| d * v).collect();
            for (row, h) in root.chunks(d).zip(&half) {
                out.iter_mut().zip(row).for_each(|(o, r)| *o += h * r);
            }
            out
        };
        let (x, products) = solve(1, &diagonal, &b, product);
        assert!((2..=MOST_PRODUCTS).contains(&products));
        let rest: Vec<f64> = product(&x).iter().zip(&b).map(|(got, b)| b - got).collect();
        let size = |v: &[f64]| v.iter().zip(&diagonal).map(|(v, d)| v * v / d).sum::<f64>();
        assert!(size(&rest) <= ROUGH * ROUGH * size(&b) && size(&rest) > 0.0);
        assert_eq!(solve(1, &diagonal, &vec![0.0; d], product), (vec![0.0; d], 0));
    }
}
