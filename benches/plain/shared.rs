//! The plain loop as a library that Python's ctypes can call.
//!
//!     rustc --edition 2024 --crate-type cdylib -C opt-level=3 -C target-cpu=native shared.rs

#[path = "mod.rs"]
mod plain;

use std::slice::from_raw_parts;
use std::time::Instant;

use plain::{Plain, PlainDense, PlainRows, PlainSparse, plain_epoch, shuffled};

/// The seconds of as many epochs as there is room for.
fn epochs<S: Plain>(
    rows: &impl PlainRows<S>,
    signs: &[i8],
    d: usize,
    width: usize,
    out: &mut [f64],
) {
    let mut v = vec![S::default(); d];
    let (mut state, mut t) = (88_172_645_463_325_252, 0.0);
    for seconds in out {
        let start = Instant::now();
        let order = shuffled(signs.len(), width, &mut state);
        std::hint::black_box(plain_epoch(rows, signs, &order, &mut v, t));
        *seconds = start.elapsed().as_secs_f64();
        t += signs.len() as f64;
    }
}

macro_rules! entry {
    ($name:ident, $t:ty) => {
        /// Writes the seconds of `count` epochs to `out`: over `n` rows of `d` features, `width` rows at a time.
        ///
        /// # Safety
        /// As long as it runs there must be `n` signs, `n d` values of dense rows (where `indptr` is null), or `n + 1` row ends,
        /// ascending from 0, and as many indices below `d` and values as the last of them says; and room for `count` numbers.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            n: usize,
            d: usize,
            indptr: *const i32,
            indices: *const i32,
            values: *const $t,
            signs: *const i8,
            width: usize,
            count: usize,
            out: *mut f64,
        ) {
            // SAFETY: see above.
            unsafe {
                let (signs, out) =
                    (from_raw_parts(signs, n), std::slice::from_raw_parts_mut(out, count));
                if indptr.is_null() {
                    let x = from_raw_parts(values, n * d);
                    return epochs(&PlainDense(x, d), signs, d, width, out);
                }
                let ends = from_raw_parts(indptr, n + 1);
                let stored = ends[n] as usize;
                let (j, x) = (from_raw_parts(indices, stored), from_raw_parts(values, stored));
                epochs(&PlainSparse(ends, j, x), signs, d, width, out);
            }
        }
    };
}
entry!(plain_f32, f32);
entry!(plain_f64, f64);
