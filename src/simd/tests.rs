mod games;

use std::cell::Cell;

use super::float::Processor;
use super::levels::best;
use super::*;
use crate::scalar::Scalar;

thread_local! {
    /// Stands above the choice of the process, for what this thread calls.
    pub static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
}

/// Runs a test at every level that this processor has.
fn at_every_level<T>(mut test: impl FnMut(Level) -> T) -> Vec<T> {
    let levels = [Level::Baseline, Level::Avx2, Level::Avx512].into_iter();
    let run = |level| {
        LEVEL.set(Some(level));
        let outcome = test(level);
        LEVEL.set(None);
        outcome
    };
    levels.filter(|&level| level <= best()).map(run).collect()
}

/// Numbers that are exact in f32, of mixed signs and sizes.
fn number(k: usize) -> f64 {
    ((k * 7919 + 13) % 201) as f64 / 16.0 - 6.0
}

fn numbers<S: Scalar>(n: usize, first: usize) -> Vec<S> {
    (first..first + n).map(|k| S::from_f64(number(k))).collect()
}

/// Every loop at every level against plain sums, at every length and offset.
fn agrees<S: Scalar + Weigh<V>, V: Scalar>(tolerance: f64) {
    // And what is longer than a piece of a row.
    for len in (0..=67).chain([527, 1041]) {
        for offset in 0..4 {
            let all: Vec<S> = numbers(len + offset, 0);
            let x = &all[offset..];
            let v: Vec<V> = (0..len).map(|k| V::from_f64(number(3 * k + 1))).collect();
            let wide = 3 * len + 1;
            let indices: Vec<i32> = (0..len).map(|k| ((k * 31 + 5) % wide) as i32).collect();
            let vs: Vec<V> = numbers(wide, 2);
            let c = -0.375;
            let size: f64 = 1.0 + len as f64 * 150.0;
            at_every_level(|level| {
                let near = |got: f64, want: f64, what: &str| {
                    let error = (got - want).abs() / size;
                    assert!(error < tolerance, "{what} {level:?}, {len}: {got}, not {want}");
                };
                let plain = |w: &[V]| -> f64 {
                    x.iter().zip(w).map(|(x, w)| x.to_f64() * w.to_f64()).sum()
                };
                near(S::dot(x, &v), plain(&v), "dot");

                let w: Vec<V> = numbers(7 * len, 5);
                let mut out = [0.0; 7];
                S::dots(x, &w, &mut out);
                for (o, row) in w.chunks(len.max(1)).enumerate() {
                    near(out[o], plain(row), "dots");
                }
                // To the same bits, of one output alone as well.
                let other: Vec<S> = numbers(len, 11);
                let rows: Vec<&[V]> = (0..7).map(|o| &w[o * len..][..len]).collect();
                let many = [&other, x, &other, &other, x, x, x];
                for (count, outputs) in (1..=7).flat_map(|count| [7, 5, 3].map(|o| (count, o))) {
                    let mut of_rows = [f64::NAN; 7 * 7];
                    S::dots_of_rows(&many[..count], &rows[..outputs], &mut of_rows, 7);
                    for r in [1, 4, 5, 6].into_iter().filter(|r| *r < count) {
                        assert_eq!(of_rows[r * 7..][..outputs], out[..outputs]);
                    }
                }
                let mut only = [0.0];
                S::dots(x, &w[5 * len..], &mut only);
                assert_eq!(only[0], out[5]);

                let mut new = v.clone();
                let change = S::axpy(c, x, &mut new);
                let mut want = 0.0;
                for k in 0..len {
                    let sum = v[k].to_f64() + c * x[k].to_f64();
                    near(new[k].to_f64(), sum, "axpy");
                    want += sum * sum - v[k].to_f64() * v[k].to_f64();
                }
                near(change, want, "change of axpy");

                let gathered: Vec<V> = indices.iter().map(|&j| vs[j as usize]).collect();
                near(S::gather_dot(&indices, x, &vs), plain(&gathered), "gather");

                let mut new = vs.clone();
                let change = S::scatter_axpy(c, &indices, x, &mut new);
                let mut unaccounted = vs.clone();
                S::scatter(c, &indices, x, &mut unaccounted);
                let bits = |v: &[V]| v.iter().map(|v| v.to_f64().to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&unaccounted), bits(&new));
                let mut want: Vec<f64> = vs.iter().map(|v| v.to_f64()).collect();
                for (x, &j) in x.iter().zip(&indices) {
                    want[j as usize] += c * x.to_f64();
                }
                let square = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
                let old: Vec<f64> = vs.iter().map(|v| v.to_f64()).collect();
                near(change, square(&want) - square(&old), "change of scatter");
                for (new, want) in new.iter().zip(&want) {
                    near(new.to_f64(), *want, "scatter");
                }
            });
        }
    }
}

#[test]
fn levels_agree_with_plain_sums() {
    agrees::<f32, f32>(1e-6);
    agrees::<f32, f64>(1e-15);
    agrees::<f64, f64>(1e-15);
}

/// Products with a block at every level, for every number of rows, features and offset, dense and
/// sparse, against plain sums.
fn products_agree<S: Scalar>(tolerance: f64) {
    for d in (0..=67).step_by(3) {
        let block: Vec<Lanes<S>> = (0..d)
            .map(|j| Lanes(std::array::from_fn(|k| S::from_f64(number(WIDTH * j + k)))))
            .collect();
        for rows in 1..=TALL + TILE + 5 {
            let all: Vec<S> = numbers(rows * d + 1, 9);
            let slices: Vec<&[S]> = (0..rows).map(|r| &all[1 + r * d..][..d]).collect();
            let indices: Vec<i32> = (0..d as i32).rev().collect();
            at_every_level(|level| {
                let stride = WIDTH + 3;
                let mut out = vec![S::from_f64(-7.0); rows * stride];
                S::products(&slices, &block, &mut out, stride);
                // To the same bits, in two parts.
                let mut again = vec![S::from_f64(-7.0); rows * stride];
                let part = |range: std::ops::Range<usize>| -> Vec<&[S]> {
                    slices.iter().map(|x| &x[range.clone()]).collect()
                };
                S::products(&part(0..d / 3), &block[..d / 3], &mut again, stride);
                S::add_products(&part(d / 3..d), &block[d / 3..], &mut again, stride);
                assert!(out == again, "{level:?} {d} {rows}");
                for (r, x) in slices.iter().enumerate() {
                    let mut sparse = [S::default(); WIDTH];
                    let values: Vec<S> = x.iter().rev().copied().collect();
                    S::sparse_products(&indices, &values, &block, &mut sparse);
                    for k in 0..WIDTH {
                        let want: f64 =
                            (0..d).map(|j| x[j].to_f64() * block[j].0[k].to_f64()).sum();
                        for got in [out[r * stride + k], sparse[k]] {
                            let error = (got.to_f64() - want).abs() / (1.0 + d as f64 * 150.0);
                            assert!(error < tolerance, "{level:?} {d} {rows}: {got}, not {want}");
                        }
                    }
                    let room = &out[r * stride + WIDTH..(r + 1) * stride];
                    assert!(room.iter().all(|&x| x == S::from_f64(-7.0)), "beyond the block");
                }
                for bad in [d as i32, -1] {
                    let mut out = [S::default(); WIDTH];
                    S::sparse_products(&[bad], S::ONE, &block, &mut out);
                    assert!(out.iter().all(|x| x.to_f64().is_nan()));
                }
            });
        }
    }
}

#[test]
fn products_agree_with_plain_sums() {
    products_agree::<f32>(1e-6);
    products_agree::<f64>(1e-15);
}

/// Exponentials over their range, of slices of every length and offset; and beyond it.
fn exponentials<S: Scalar>(range: std::ops::Range<f64>, tolerance: f64) {
    let at = |k: usize| range.start + (range.end - range.start) * k as f64 / 200_000.0;
    let all: Vec<S> = (0..200_000).map(|k| S::from_f64(at(k))).collect();
    at_every_level(|level| {
        let mut got = all.clone();
        S::exp(&mut got);
        for (x, got) in all.iter().zip(&got) {
            let error = got.to_f64() / x.to_f64().exp() - 1.0;
            assert!(error.abs() <= tolerance, "{level:?} {x}: {error}");
        }
        for len in 0..=67 {
            for offset in 0..4 {
                let mut part = all[1000..1000 + offset + len].to_vec();
                S::exp(&mut part[offset..]);
                assert_eq!(part[..offset], all[1000..1000 + offset]);
                assert_eq!(part[offset..], got[1000 + offset..1000 + offset + len]);
            }
        }
        let mut odd = [f64::NEG_INFINITY, -1e30, f64::NAN, 0.0, -0.0].map(S::from_f64);
        S::exp(&mut odd);
        assert_eq!((odd[0].to_f64(), odd[1].to_f64()), (0.0, 0.0));
        assert!(odd[2].to_f64().is_nan());
        assert_eq!((odd[3].to_f64(), odd[4].to_f64()), (1.0, 1.0));
    });
}

/// What replaces each number by a function of it: of slices of every length alike, and no further from `want` than so much of it,
/// or of what it may be at least.
fn replaces<S: Scalar>(
    of: fn(&mut [S]),
    want: fn(f64) -> f64,
    x: &[f64],
    (tolerance, least): (f64, f64),
) {
    let x: Vec<S> = x.iter().map(|x| S::from_f64(*x)).collect();
    at_every_level(|level| {
        let mut got = x.clone();
        of(&mut got);
        for (x, got) in x.iter().zip(&got) {
            let (got, want) = (got.to_f64(), want(x.to_f64()));
            let near = (got - want).abs() <= tolerance * want.abs().max(least);
            assert!(near || got.is_nan() && want.is_nan(), "{level:?} {x}: {got}, not {want}");
        }
        for len in 0..=19 {
            let mut part = x[..len].to_vec();
            of(&mut part);
            assert!(part.iter().zip(&got).all(|(a, b)| a == b || a.to_f64().is_nan()));
        }
    });
}

#[test]
fn the_logistic_loss_is_accurate() {
    fn law<S: Scalar>(farthest: f64, tolerance: f64) {
        let mut m = vec![f64::NAN, 0.0, -0.0, 1e-30, -1e30, farthest, -farthest];
        m.extend((-7000..=7000).map(|k| f64::from(k) / 100.0));
        let loss = |m: f64| (-m.abs()).exp().ln_1p() + (-m).max(0.0) + (m - m);
        replaces::<S>(S::logistic, loss, &m, (tolerance, 1e-35));
        replaces::<S>(S::logistic_slopes, |m| 1.0 / (1.0 + m.exp()), &m, (tolerance, 1e-35));
        let mut a: Vec<f64> = (1..=20_000).map(|k| f64::from(k) / 20_001.0).collect();
        a.extend((1..100).flat_map(|k| [0.7_f64.powi(k), 0.5_f64.powi(k)]));
        a.push(f64::NAN);
        // What is rounded away of 1 - a is little beside 1, and beside nothing else.
        replaces::<S>(S::logits, |a| (a / (1.0 - a)).ln(), &a, (tolerance, 1.0));
        a.extend([0.0, 1.0]);
        let entropies = |a: f64| {
            let entropy = |x: f64, ln: f64| if x > 0.0 { x * ln } else { x };
            entropy(a, a.ln()) + entropy(1.0 - a, (-a).ln_1p())
        };
        replaces::<S>(S::entropies, entropies, &a, (tolerance, 1e-35));
    }
    law::<f32>(80.0, 4e-7);
    law::<f64>(700.0, 2e-15);
}

#[test]
fn exponentials_are_accurate() {
    exponentials::<f32>(-87.0..88.0, 2e-7);
    exponentials::<f64>(-708.0..709.0, 1e-14);
}

/// Kernel values of products, and a step of dual ascent, at every level against plain loops.
fn kernels_and_ascent_agree<S: Scalar>(tolerance: f64) {
    let near = |got: f64, want: f64, what: &str| {
        let error = (got - want).abs() / (1.0 + want.abs());
        assert!(error < tolerance, "{what}: {got}, not {want}");
    };
    at_every_level(|level| {
        for len in 0..=67 {
            let (xz, zz): (Vec<S>, Vec<S>) = (numbers(len, 3), numbers(len, 40));
            let mut got = xz.clone();
            S::rbf(0.125, &mut got, 1.5, &zz);
            for (got, (xz, zz)) in got.iter().zip(xz.iter().zip(&zz)) {
                let distance = 1.5 + zz.to_f64() - 2.0 * xz.to_f64();
                near(got.to_f64(), (-0.125 * distance.max(0.0)).exp(), "kernel value");
            }
        }
        for len in (LANES..=5 * LANES).step_by(LANES) {
            let parts = |step: usize| -> Vec<f32> {
                (0..len).map(|k| (k * step % 17) as f32 / 16.0).collect()
            };
            let (mut a, inverse, mut weight) = (parts(5), parts(11), parts(7));
            for k in (0..len).step_by(3) {
                (a[k], weight[k]) = (-a[k], -weight[k]);
            }
            let rows: Vec<Vec<S>> = (1..=CANDIDATES).map(|k| numbers(len, k)).collect();
            let rows: Vec<&[S]> = rows.iter().map(|row| &row[..]).collect();
            let c: Vec<f64> = (0..CANDIDATES).map(|k| 0.375 - 0.25 * k as f64).collect();
            let before: Vec<f64> = numbers(len, 9);
            for (count, both) in (0..=CANDIDATES).flat_map(|count| [(count, false), (count, true)])
            {
                let (c, rows) = (&c[..count], &rows[..count]);
                let mut g = before.clone();
                let found = S::descend(c, rows, &mut g, [&a, &inverse, &weight], both);
                let (mut values, mut gap) = (vec![], 0.0);
                for k in 0..len {
                    let [a, inverse, weight] = [a[k], inverse[k], weight[k]].map(f64::from);
                    let steps = c.iter().zip(rows).map(|(c, row)| c * row[k].to_f64());
                    let slope = before[k] - steps.sum::<f64>();
                    near(g[k], slope, "slope");
                    let (low, weight) = (if weight < 0.0 { -1.0 } else { 0.0 }, weight.abs());
                    let gain = weight * ((a + inverse * slope).clamp(low, low + 1.0) - a) * slope;
                    gap += weight * (slope * (low + 1.0 - a)).max(slope * (low - a));
                    // Of one that goes the other way than its slope says, the less it loses the better.
                    let of = |rise: bool| {
                        let can = weight > 0.0 && if rise { a < low + 1.0 } else { a > low };
                        if !both || can && (slope > 0.0) == rise {
                            gain
                        } else if can {
                            -slope.abs()
                        } else {
                            f64::NEG_INFINITY
                        }
                    };
                    values.push([of(true), of(false)]);
                }
                for (part, (at, gain)) in found.at.into_iter().zip(found.gain).enumerate() {
                    let parts = if both { CANDIDATES / 2 } else { CANDIDATES };
                    let value = |k: usize| values[k][part / parts];
                    let best = (part % parts..len).step_by(parts).map(value);
                    let best = best.fold(f64::NEG_INFINITY, f64::max);
                    if best == f64::NEG_INFINITY {
                        assert_eq!(gain, best);
                    } else {
                        near(gain, best, "gain");
                        near(value(at), gain, "the entry's gain");
                    }
                    assert_eq!(at % parts, part % parts);
                }
                near(found.gap, gap, "gap");
                assert!(found.gain.iter().any(|gain| *gain > 0.0), "{level:?} {len}");
            }
        }
    });
}

#[test]
fn kernels_and_ascent_agree_with_plain_loops() {
    kernels_and_ascent_agree::<f32>(1e-6);
    kernels_and_ascent_agree::<f64>(1e-14);
}

/// What dual ascent with kernels asks and tells, at every level, against plain loops.
fn ascent_agrees<S: Scalar>(tolerance: f64) {
    let near = |got: f64, want: f64, what: &str| {
        let error = (got - want).abs() / (1.0 + want.abs());
        assert!(error < tolerance, "{what}: {got}, not {want}");
    };
    at_every_level(|level| {
        for len in (32..=320).step_by(32) {
            for count in [0, 1, 31, 32, 33, 70] {
                let rows: Vec<Vec<S>> = (0..count).map(|b| numbers(len, b)).collect();
                let views: Vec<&[S]> = rows.iter().map(|row| &row[..]).collect();
                let coef: Vec<f64> = (0..count).map(|b| (b % 5) as f64 / 4.0 - 0.5).collect();
                let before: Vec<f64> = numbers(len, 9);
                let mut out = before.clone();
                S::add_rows(&coef, &views, &mut out);
                for (k, got) in out.iter().enumerate() {
                    let sum: f64 = (0..count).map(|b| coef[b] * rows[b][k].to_f64()).sum();
                    near(*got, before[k] + sum, "sums of rows");
                }
            }
        }
        for (outputs, len) in [(2, 16), (3, 48), (7, 32)] {
            let stride = len + 16;
            let scores: Vec<S> = numbers(outputs * stride, 4);
            let dual: Vec<S> = numbers(outputs * stride, 5);
            let labels: Vec<S> = (0..len).map(|k| S::from_f64((k % outputs) as f64)).collect();
            let mut out = vec![S::default(); len];
            S::shares(&scores, &dual, stride, &labels, &mut out);
            for (k, got) in out.iter().enumerate() {
                let y = k % outputs;
                let of = |of: &[S], o: usize| of[o * stride + k].to_f64();
                let others = (0..outputs).filter(|&o| o != y).map(|o| of(&scores, o));
                let most = others.fold(f64::NEG_INFINITY, f64::max);
                let cross: f64 = (0..outputs).map(|o| of(&dual, o) * of(&scores, o)).sum();
                let want = (1.0 + most - of(&scores, y)).max(0.0) - of(&dual, y) + cross;
                near(got.to_f64(), want, &format!("{level:?} shares"));
            }
        }
    });
}

#[test]
fn ascent_agrees_with_plain_loops() {
    ascent_agrees::<f32>(1e-6);
    ascent_agrees::<f64>(1e-13);
}

/// What maintenance asks of all vectors, at every level, against plain loops.
fn maintenance_agrees<S: Scalar>(tolerance: f64) {
    let eighths = |n: usize, first: usize| -> Vec<S> {
        (first..first + n).map(|k| S::from_f64(number(k) / 8.0)).collect()
    };
    let near = |got: S, want: f64, what: &str| {
        let error = (got.to_f64() - want).abs() / (1.0 + want.abs());
        assert!(error < tolerance, "{what}: {got}, not {want}");
    };
    at_every_level(|level| {
        for slots in [0, 1, 5, 37] {
            let lanes = |first: usize| -> Vec<Lanes<S>> {
                let all = eighths(slots * WIDTH, first);
                all.as_chunks().0.iter().map(|lanes| Lanes(*lanes)).collect()
            };
            let products = lanes(3);
            let (mut k, mut distances) = (products.clone(), lanes(0));
            let (zz, xx) = (eighths(slots, 40), eighths(WIDTH, 50));
            let xx: [S; WIDTH] = std::array::from_fn(|l| xx[l]);
            S::gaussian(0.3, &zz, &xx, &mut k, &mut distances);
            for s in 0..slots {
                for (l, xx) in xx.iter().enumerate() {
                    let product = products[s].0[l].to_f64();
                    let want = (xx.to_f64() + zz[s].to_f64() - 2.0 * product).max(0.0);
                    near(distances[s].0[l], want, "distance");
                    near(k[s].0[l], (-0.3 * want).exp(), "kernel value");
                }
            }
            let Some(first) = k.first() else {
                continue;
            };
            let coef: Vec<f64> = (0..slots).map(|o| number(o) * f64::from(o % 3 > 0)).collect();
            let mut scores = lanes(7);
            S::lift(-0.5, &coef, first, &mut scores);
            for (o, (got, before)) in scores.iter().zip(lanes(7)).enumerate() {
                for l in 0..WIDTH {
                    let want = before.0[l].to_f64() - 0.5 * coef[o] * first.0[l].to_f64();
                    near(got.0[l], want, "lift");
                }
            }
        }
        for width in [0, WIDTH, 3 * WIDTH] {
            let stride = width + 5;
            let w = eighths(4 * stride, 11);
            let mut out = eighths(width, 0);
            S::mix(&[(0, 0.5), (3, -2.0)], &w, stride, &mut out);
            for (k, got) in out.iter().enumerate() {
                near(*got, 0.5 * w[k].to_f64() - 2.0 * w[3 * stride + k].to_f64(), "mix");
            }
            let (m, n) = (eighths(width, 21), eighths(width, 31));
            S::between(0.25, &m, &n, 1.5, &mut out);
            for (k, got) in out.iter().enumerate() {
                let want = 0.25 * m[k].to_f64() + 0.75 * n[k].to_f64() - 0.1875 * 1.5;
                near(*got, want.max(0.0), "between");
            }
            let mut values = eighths(width, 5);
            if let Some(value) = values.first_mut() {
                *value = S::from_f64(f64::NAN);
                let got = S::least(&values);
                let least = values[1..].iter().map(|v| v.to_f64()).fold(f64::INFINITY, f64::min);
                let first = values.iter().position(|v| v.to_f64() == least);
                assert_eq!(Some(got), first, "{level:?}");
            }
        }
    });
}

#[test]
fn maintenance_agrees_with_plain_loops() {
    maintenance_agrees::<f32>(2e-6);
    maintenance_agrees::<f64>(1e-14);
}

/// The lower half of a symmetric matrix, of every size.
#[test]
fn updates_agree_with_plain_loops() {
    at_every_level(|level| {
        for n in 0..=67 {
            let (plus, minus, k): (Vec<f64>, Vec<f64>, Vec<f64>) =
                (numbers(n, 1), numbers(n, 9), numbers(n, 17));
            let before: Vec<f64> = numbers(n * (n + 1) / 2, 0);
            let (mut q, mut out) = (before.clone(), vec![7.0; n]);
            update_and_multiply(&mut q, &plus, &minus, &k, &mut out);
            let at = |i: usize, j: usize| {
                let place = i.max(j) * (i.max(j) + 1) / 2 + i.min(j);
                let new = before[place] + plus[i] * plus[j] - minus[i] * minus[j];
                assert!((q[place] - new).abs() < 1e-9, "{level:?} {n}");
                new
            };
            for (i, got) in out.iter().enumerate() {
                let want: f64 = (0..n).map(|j| at(i, j) * k[j]).sum();
                assert!((got - want).abs() < 1e-7, "{level:?} {n}: {got}, not {want}");
            }
        }
    });
}

/// Every level finds one partner, or others as good: the merger's own tests say what is best.
#[test]
fn partners_agree() {
    for round in 0..50 {
        let width = 3 * WIDTH;
        let distances: Vec<f32> = (0..width).map(|k| number(k + round).abs() as f32).collect();
        let mut b: Vec<f64> = (0..width).map(|k| 1.0 + number(k + 3 * round).abs()).collect();
        let c: Vec<f32> = (0..width).map(|k| number(5 * k + round) as f32 / 20.0).collect();
        let mut bounds = vec![0.0; width];
        let m = round % width;
        b[m] = 1.0;
        let of = Partners { gamma: 0.7, m, distances: &distances, sizes: &b, crosses: &c };
        let found = at_every_level(|_| {
            let n = f32::bounds(of, &mut bounds);
            (n, f32::cheaper(of, (n, f64::INFINITY), &mut bounds))
        });
        assert!(found.iter().all(|pair| *pair == found[0]), "{found:?}");
        let (n, other) = found[0];
        assert!(n != m && other != m && n != other, "{found:?}");
    }
}

/// Several vectors side by side are as many by themselves, to the last bit.
#[test]
fn vectors_side_by_side_agree_with_each() {
    fn law<X: Scalar + Weigh<V>, V: Scalar>(level: Level) {
        let features = 23;
        for (outputs, stride) in [(3, 4), (4, 4), (7, 8), (8, 8), (13, 16), (16, 16), (20, 32)] {
            let value = |o: usize, j: usize| V::from_f64(number(o * features + j));
            let each: Vec<Vec<V>> =
                (0..outputs).map(|o| (0..features).map(|j| value(o, j)).collect()).collect();
            for stored in 0..=11 {
                let indices: Vec<i32> = (0..stored).map(|k| (k * 9 % features) as i32).collect();
                let x: Vec<X> = (0..stored).map(|k| X::from_f64(number(k + 400))).collect();
                let coef: Vec<f64> = (0..outputs).map(|o| number(o + 7) * (o % 3) as f64).collect();
                let mut together = vec![V::default(); stride * features];
                for (o, each) in each.iter().enumerate() {
                    (0..features).for_each(|j| together[j * stride + o] = each[j]);
                }
                let mut sums = vec![7.0; outputs];
                X::gather_dots(&indices, &x, &together, stride, &mut sums);
                X::scatter_axpys(&coef, 0.3, &indices, &x, &mut together, stride);
                for (o, each) in each.iter().enumerate() {
                    let mut v = each.clone();
                    assert_eq!(sums[o], X::gather_dot(&indices, &x, &v), "{level:?} {outputs}");
                    X::scatter_axpy(coef[o] / 0.3, &indices, &x, &mut v);
                    let found = (0..features).map(|j| together[j * stride + o]);
                    assert!(found.eq(v), "{level:?} {outputs} {stored}");
                }
                let filled = together.chunks(stride).flat_map(|all| &all[outputs..]);
                assert!(filled.copied().all(|x| x == V::default()), "{level:?} {outputs}");
            }
        }
    }
    at_every_level(|level| {
        law::<f32, f32>(level);
        law::<f32, f64>(level);
        law::<f64, f64>(level);
    });
}

/// Wherever the bad index stands: in a full group or in the remainder.
#[test]
fn an_index_outside_is_seen_and_never_followed() {
    at_every_level(|_| {
        for len in 1..=19 {
            for at in 0..len {
                let mut indices = vec![0_i64; len];
                let values = vec![1.0_f32; len];
                for bad in [4, -1, i64::MAX, i64::MIN] {
                    indices[at] = bad;
                    let mut v = [1.0_f32; 4];
                    assert!(f32::gather_dot(&indices, &values, &v).is_nan());
                    f32::scatter_axpy(1.0, &indices, &values, &mut v);
                    assert_eq!(v, [1.0 + (len - 1) as f32, 1.0, 1.0, 1.0]);
                    f32::scatter(-1.0, &indices, &values, &mut v);
                    assert_eq!(v, [1.0; 4]);
                }
            }
        }
    });
}

/// The longer of two slices is cut, and a number that is not finite shows.
#[test]
fn odd_slices_are_safe() {
    at_every_level(|_| {
        for len in 0..40 {
            let x = vec![1.0_f64; 40];
            let mut v = vec![2.0; len];
            assert_eq!(f64::dot(&x, &v), 2.0 * len as f64);
            assert_eq!(f64::dot(&v, &x), 2.0 * len as f64);
            assert_eq!(f64::axpy(1.0, &x, &mut v), 5.0 * len as f64);
            for bad in [f64::NAN, f64::INFINITY] {
                for at in 0..len {
                    let mut x = x.clone();
                    x[at] = bad;
                    assert!(!f64::dot(&x, &vec![0.0; len]).is_finite());
                }
            }
        }
    });
}

/// What stands in intrinsics of AVX2 is the portable body, to the last bit.
#[cfg(target_arch = "x86_64")]
#[test]
fn avx2_has_the_bits_of_the_body() {
    #[derive(Clone, Copy)]
    struct Fused;
    impl Processor for Fused {
        const FMA: bool = true;
        const REGISTER: usize = 32;
    }
    fn check<S: Scalar + Weigh<V> + Widen<V>, V: Scalar + Float>() {
        for len in (0..=135).chain([784]) {
            let (x, v): (Vec<S>, Vec<V>) = (numbers(len, 3), numbers(len + 2, 8));
            let dot = S::dot(&x, &v);
            assert_eq!(dot.to_bits(), body::dot(Fused, &x, &v).to_bits(), "{len}");
            let (mut ours, mut theirs) = (v.clone(), v);
            let changes = [S::axpy(0.3, &x, &mut ours), body::axpy(Fused, 0.3, &x, &mut theirs)];
            assert_eq!(changes[0].to_bits(), changes[1].to_bits(), "{len}");
            assert!(ours == theirs, "{len}");
        }
    }
    at_every_level(|level| {
        if level == Level::Avx2 {
            check::<f32, f32>();
            check::<f32, f64>();
            check::<f64, f64>();
        }
    });
}
