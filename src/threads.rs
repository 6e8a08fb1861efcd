//! Work side by side, on the threads of the rayon pool that the caller is in; nothing else below the Python binding
//! knows of rayon.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// Whether what this thread does it does alone.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f`, whose tasks are all done by this thread, one after the other.
#[cfg(feature = "python")]
pub(crate) fn alone(f: &mut dyn FnMut()) {
    /// Puts the flag back, after a panic too.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(ALONE.replace(true));
    f();
}

/// How many threads there are for tasks.
pub(crate) fn count() -> usize {
    #[cfg(feature = "rayon")]
    if !ALONE.get() {
        return rayon::current_num_threads();
    }
    1
}

/// Calls `task(k)` for every k below `count`, on the threads of the current rayon pool (one after the other without the
/// feature `rayon`).
fn each(count: usize, task: &(dyn Fn(usize) + Sync)) {
    #[cfg(feature = "rayon")]
    if count > 1 && self::count() > 1 {
        use rayon::prelude::*;
        // Each by itself, for whoever has nothing to do.
        return (0..count).into_par_iter().with_max_len(1).for_each(task);
    }
    (0..count).for_each(task);
}

/// Calls `f` on every item, on the threads of the current rayon pool. Results come in the order of the items.
///
/// What is compiled for every `f` is little: tasks take tens of microseconds, and find their items and leave their
/// results in cells that nobody else asks for.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: &mut [T],
    f: impl Fn(usize, &mut T) -> R + Sync,
) -> Vec<R> {
    if items.len() == 1 {
        return vec![f(0, &mut items[0])];
    }
    let cells: Vec<Mutex<(&mut T, Option<R>)>> =
        items.iter_mut().map(|item| Mutex::new((item, None))).collect();
    each(cells.len(), &|k| {
        let cell = &mut *cells[k].lock().unwrap_or_else(PoisonError::into_inner);
        cell.1 = Some(f(k, cell.0));
    });
    let results = cells.into_iter();
    // A panic in a task has come out of `each`.
    results.filter_map(|cell| cell.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}
