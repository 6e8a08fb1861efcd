//! Work side by side: the only module that knows of rayon.

/// Calls `f` on every item, on the threads of the current rayon pool (one after the other without the
/// feature `rayon`). Results come in the order of the items.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: &mut [T],
    f: impl Fn(usize, &mut T) -> R + Sync,
) -> Vec<R> {
    #[cfg(feature = "rayon")]
    if items.len() > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        return items.par_iter_mut().enumerate().map(|(k, item)| f(k, item)).collect();
    }
    items.iter_mut().enumerate().map(|(k, item)| f(k, item)).collect()
}
