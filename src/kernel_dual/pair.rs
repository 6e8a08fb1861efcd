//! Steps of greedy ascent by one example, or by two at once.

/// The new dual variables, of one or of both, and what D gains, over `lambda`.
pub(super) type Step = ([Option<f64>; 2], f64);

/// What there is to know of an example that steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coordinate {
    pub slope: f64,
    pub old: f64,
    /// The dual variable is in [low, low + 1].
    pub low: f64,
    pub curvature: f64,
    /// What a dual variable of 1 is in w.
    pub factor: f64,
}

impl Coordinate {
    /// The best dual variable, the others staying what they are, with such a slope.
    fn best(&self, slope: f64) -> f64 {
        (self.old + slope / self.curvature).clamp(self.low, self.low + 1.0)
    }

    /// The step of one alone.
    pub fn best_alone(&self) -> Step {
        let a = self.best(self.slope);
        ([Some(a), None], self.gain(a))
    }

    /// What a dual variable gains by itself.
    fn gain(&self, new: f64) -> f64 {
        let change = new - self.old;
        self.factor * change * (self.slope - 0.5 * self.curvature * change)
    }
}

/// The best dual variables of two at once, of which the kernel value is this; roundings or not, none worse than the best of one
/// and then of the other.
pub(super) fn best_of_two(one: Coordinate, other: Coordinate, across: f64) -> Step {
    let first = |b: f64| one.best(one.slope - across * other.factor * (b - other.old));
    let second = |a: f64| other.best(other.slope - across * one.factor * (a - one.old));
    let step = |[a, b]: [f64; 2]| {
        let cross = across * one.factor * (a - one.old) * other.factor * (b - other.old);
        ([Some(a), Some(b)], one.gain(a) + other.gain(b) - cross)
    };
    let better = |best: Step, step: Step| if step.1 > best.1 { step } else { best };
    let alone = one.best(one.slope);
    let in_turn = step([alone, second(alone)]);
    let det = one.curvature * other.curvature - across * across * one.factor * other.factor;
    let free = one.slope * other.curvature - across * other.factor * other.slope;
    let free = (one.old + free / det).clamp(one.low, one.low + 1.0);
    let within = step([free, second(free)]);
    // Or one of them is at an end: two that are alike may go all the way, one up, one down, and move no score.
    let ends = |of: &Coordinate| [of.low, of.low + 1.0];
    let of_one = ends(&one).map(|a| step([a, second(a)]));
    let of_other = ends(&other).map(|b| step([first(b), b]));
    [within].into_iter().chain(of_one).chain(of_other).fold(in_turn, better)
}

#[cfg(test)]
pub(super) mod tests {
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;
    use crate::{Binary, Dense, Examples, Hinge, Kernel, KernelAscent, Scalar};

    /// In how many pieces of n steps each, after the first, class 1 is told from the others to a relative gap of `tol`; but no
    /// more than `most`.
    pub fn pieces<S: Scalar>(
        kernel: Kernel,
        (c, constant): (f64, f64),
        data: &Examples<'_, S>,
        tol: f64,
        most: usize,
    ) -> usize {
        let (n, loss) = (data.len(), Binary { loss: Hinge, positive: 1 });
        let ascent = KernelAscent::new(kernel, loss, 1.0 / (c * n as f64), data, 1 << 26);
        let mut ascent = ascent.expect("ascent").with_constant(constant).expect("constant");
        let mut there = || {
            let found = ascent.advance(data, tol, n).expect("finite");
            found.is_some_and(|found| found.relative_gap() <= tol)
        };
        (0..most).take_while(|_| !there()).count()
    }

    /// Beside a thousand steps of each in turn: as good, whether a bound is met or not, and not worse than the first two of them.
    #[test]
    fn two_step_at_once() {
        let numbers = |seed: usize| ((seed * 7919 + 13) % 101) as f64 / 101.0;
        let mut free = 0;
        for k in 0..2000 {
            let [by, across] = [9.0 * numbers(k), 1.8 * numbers(k + 1) - 0.9];
            let coordinate = |k: usize| {
                let low = if k.is_multiple_of(2) { 0.0 } else { -1.0 };
                let factor = 0.1 + 10.0 * numbers(k + 2);
                let slope = 4.0 * numbers(k + 3) - 2.0;
                let old = low + numbers(k + 4);
                Coordinate { slope, old, low, curvature: factor * (1.0 + by), factor }
            };
            let (one, other, across) = (coordinate(k), coordinate(3 * k + 1), across + by);
            let mut in_turn = [one.old, other.old];
            let value = |[a, b]: [f64; 2]| {
                let cross = across * one.factor * (a - one.old) * other.factor * (b - other.old);
                one.gain(a) + other.gain(b) - cross
            };
            let ([Some(a), Some(b)], gain) = best_of_two(one, other, across) else {
                panic!("both step");
            };
            let found = [a, b];
            assert!((gain - value(found)).abs() < 1e-12);
            for turn in 0..1000 {
                in_turn[0] = one.best(one.slope - across * other.factor * (in_turn[1] - other.old));
                in_turn[1] = other.best(other.slope - across * one.factor * (in_turn[0] - one.old));
                if turn == 0 {
                    assert!(value(found) >= value(in_turn) - 1e-12, "{k}");
                }
            }
            let inside = [one, other].iter().zip(in_turn).all(|(of, a)| {
                let low = of.low + 1e-6;
                a > low && a < low + 1.0 - 2e-6
            });
            free += usize::from(inside);
            assert!(value(found) >= value(in_turn) - 1e-9, "{k}: {found:?}, {in_turn:?}");
            for (of, a) in [one, other].iter().zip(found) {
                assert!((of.low..=of.low + 1.0).contains(&a));
            }
        }
        assert!((200..1800).contains(&free), "{free}");
    }

    /// Kernel values that are all but equal, labels of noise, all but a few dual variables at an end: each example steps a
    /// few times, not thousands. In pieces of n steps each; with single steps, or where the second of a pair must gain by its own
    /// step, there are hundreds of them.
    #[test]
    fn what_kernel_values_have_in_common_costs_nothing() {
        let (n, d) = (1000, 5);
        let mut numbers = Pcg64::new(3, 0);
        let mut uniform = || (numbers.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let x: Vec<f64> = (0..n * d).map(|_| 3.0 * uniform()).collect();
        let y: Vec<u32> = (0..n).map(|_| u32::from(uniform() < 0.5)).collect();
        let data = Examples::new(Dense::new(&x, n, d).expect("rows"), &y, None).expect("examples");
        for constant in [0.0, 3.0] {
            for c in [10.0, 1000.0] {
                let pieces = pieces(Kernel::Rbf { gamma: 1e-4 }, (c, constant), &data, 1e-3, 20);
                assert!(pieces < 20, "constant {constant}, C = {c}");
            }
        }
    }
}
