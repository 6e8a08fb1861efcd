//! Several problems over the same rows: one against the rest, for every class.

use crate::data::{Examples, Rows};
use crate::error::Error;
use crate::hypothesis::Hypothesis;
use crate::loss::Loss;
use crate::trainer::{Report, Trainer};

/// Runs every trainer over the same order of the same examples, side by side on the threads of the
/// current rayon pool (one after the other without the feature `rayon`). The number of threads
/// changes no bit of the result. Reports are summed.
///
/// On an error the trainers may have stopped at different steps; the first trainer's error is
/// returned.
///
/// ```
/// use pegasos::{Binary, Dense, Examples, Hinge, Linear, Params, Sampling, Trainer};
///
/// let x = [0.0, 0.0, 5.0, 0.0, 0.0, 5.0_f64];
/// let data = Examples::new(Dense::new(&x, 3, 2)?, &[0, 1, 2], None)?;
/// let mut trainers = (0..3)
///     .map(|positive| {
///         let loss = Binary { loss: Hinge, positive };
///         Trainer::new(Linear::new(1, 2, 1.0)?, loss, Params::default())
///     })
///     .collect::<Result<Vec<_>, _>>()?;
/// let order: Vec<usize> = Sampling::Shuffle.epoch(3, 0, 0)?.collect();
/// let report = pegasos::run_all(&mut trainers, &data, &order)?;
/// assert_eq!(report.examples, 9);
/// # Ok::<(), pegasos::Error>(())
/// ```
pub fn run_all<H, L, X>(
    trainers: &mut [Trainer<H, L>],
    data: &Examples<'_, X>,
    order: &[usize],
) -> Result<Report, Error>
where
    H: Hypothesis + Send,
    L: Loss + Send,
    X: Rows<Scalar = H::Scalar>,
{
    let run = |trainer: &mut Trainer<H, L>| trainer.run(data, order.iter().copied());
    #[cfg(feature = "rayon")]
    let reports: Vec<_> = {
        use rayon::prelude::*;
        trainers.par_iter_mut().map(run).collect()
    };
    #[cfg(not(feature = "rayon"))]
    let reports: Vec<_> = trainers.iter_mut().map(run).collect();
    let mut total = Report::default();
    for report in reports {
        total += report?;
    }
    Ok(total)
}
