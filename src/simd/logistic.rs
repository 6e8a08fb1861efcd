//! The bodies of the logistic loss, of many examples at a time. As in `body.rs`, written once and compiled for every level.

use super::float::{Float, Processor};

/// `e^-|m|`, which never overflows.
#[inline(always)]
fn decay<P: Processor, S: Float>(m: S) -> S {
    let below = if m > S::ZERO { -m } else { m };
    below.exp::<P>()
}

#[inline(always)]
pub fn logistic<P: Processor, S: Float>(_: P, m: &mut [S]) {
    let (one, root) = (S::UNIT, S::from_f64(core::f64::consts::SQRT_2 - 1.0));
    let (ln_2, three) = (S::from_f64(core::f64::consts::LN_2), S::from_f64(3.0));
    for m in m {
        let e = decay::<P, S>(*m);
        // 1 + e, or half of it, is (1 + s)/(1 - s).
        let halved = e > root;
        let s = if halved { (e - one) / (e + three) } else { e / (e + one + one) };
        let ln = s.ln_of_ratio::<P>() + if halved { ln_2 } else { S::ZERO };
        // NaN stays.
        *m = if *m > S::ZERO { ln } else { ln - *m };
    }
}

#[inline(always)]
pub fn logistic_slopes<P: Processor, S: Float>(_: P, m: &mut [S]) {
    for m in m {
        let e = decay::<P, S>(*m);
        *m = if *m > S::ZERO { e } else { S::UNIT } / (S::UNIT + e);
    }
}

#[inline(always)]
pub fn entropies<P: Processor, S: Float>(_: P, a: &mut [S]) {
    for a in a {
        let (x, y) = (*a, S::UNIT - *a);
        // x ln x is 0 at 0; its factor is finite there.
        let (of_x, of_y) = (x.ln::<P>(), y.ln::<P>());
        // What was rounded away of y is as large as all of it counts for where x is small.
        let lost = x - (S::UNIT - y);
        *a = x * of_x + (y * of_y - lost * (of_y + S::UNIT));
    }
}

#[inline(always)]
pub fn logits<P: Processor, S: Float>(_: P, a: &mut [S]) {
    for a in a {
        let ln = (*a / (S::UNIT - *a)).ln::<P>();
        // NaN stays.
        *a = ln + S::ZERO * *a;
    }
}
