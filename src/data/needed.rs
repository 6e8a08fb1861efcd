//! The features that some sparse rows need of a model, under numbers of their own.

use super::{Csr, Matrix};
use crate::error::Error;
use crate::memory;
use crate::scalar::{Index, Scalar};

/// The features that any of some sparse rows stores, and where among these each of their entries is.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    /// In the order in which the rows come to them; one at least.
    pub(crate) features: Vec<u32>,
    indptr: Vec<i32>,
    indices: Vec<i32>,
}

impl Needed {
    /// Those of a matrix, if it is sparse and has no more than so many features that any row stores, and entries; `None` too where
    /// an entry is in no column: whoever reads the rows as they are says so. O(entries), and 4 bytes a feature.
    pub(crate) fn of<S: Scalar>(
        x: &Matrix<'_, S>,
        most_features: usize,
        most_entries: usize,
    ) -> Result<Option<Self>, Error> {
        let (n, most_entries) = (x.n_features(), most_entries.min(i32::MAX as usize));
        if most_features == 0 || u32::try_from(n).is_err() {
            return Ok(None);
        }
        match x {
            Matrix::Csr32(Csr { indptr, indices, .. }) => {
                number(indptr, indices, n, most_features, most_entries)
            }
            Matrix::Csr64(Csr { indptr, indices, .. }) => {
                number(indptr, indices, n, most_features, most_entries)
            }
            Matrix::Dense(_) | Matrix::Owned(..) | Matrix::Window(_) => Ok(None),
        }
    }

    /// The matrix that these are of, without any other feature.
    pub(crate) fn rows<'a, S: Scalar>(&'a self, x: &Matrix<'a, S>) -> Matrix<'a, S> {
        let (Matrix::Csr32(Csr { values, .. }) | Matrix::Csr64(Csr { values, .. })) = x else {
            return *x;
        };
        let (indptr, indices) = (&self.indptr[..], &self.indices[..]);
        // As many as there are indices, unless another matrix came.
        let values = values.get(..indices.len()).unwrap_or(values);
        Matrix::Csr32(Csr { indptr, indices, values, n_features: self.features.len() })
    }
}

fn number<I: Index>(
    indptr: &[I],
    indices: &[I],
    n_features: usize,
    most_features: usize,
    most_entries: usize,
) -> Result<Option<Needed>, Error> {
    let entries = indptr.last().map_or(0, |end| end.position());
    let Some(indices) = indices.get(..entries).filter(|_| entries <= most_entries) else {
        return Ok(None);
    };
    // 0 where no number is given yet.
    let mut numbers: Vec<u32> = memory::zeros("the numbers of features", &[n_features])?;
    let mut numbered: Vec<i32> = memory::zeros("the indices of rows", &[entries])?;
    let mut features = Vec::new();
    for (j, numbered) in indices.iter().zip(&mut numbered) {
        let j = j.position();
        let Some(number) = numbers.get_mut(j) else {
            return Ok(None);
        };
        if *number == 0 {
            if features.len() == most_features {
                return Ok(None);
            }
            features.push(j as u32);
            *number = features.len() as u32;
        }
        *numbered = (*number - 1) as i32;
    }
    // Rows of nothing are rows of some feature.
    if features.is_empty() {
        features.push(0);
    }
    let indptr = indptr.iter().map(|end| end.position() as i32).collect();
    Ok(Some(Needed { features, indptr, indices: numbered }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Row;

    #[test]
    fn features_are_numbered_as_rows_come_to_them() {
        let (indptr, indices, values) = ([0_i64, 3, 3, 5], [7_i64, 2, 7, 9, 2, -1], [1.0_f32; 6]);
        let x = Matrix::from(Csr::new(&indptr, &indices, &values, 12).expect("rows"));
        let found = Needed::of(&x, 3, 5).expect("room").expect("few");
        assert_eq!(found.features, [7, 2, 9]);
        let rows = found.rows(&x);
        assert_eq!((rows.n_rows(), rows.n_features()), (3, 3));
        assert_eq!(rows.row(0), Row::Sparse32(&[0, 1, 0], &[1.0; 3]));
        assert_eq!(rows.row(1), Row::Sparse32(&[], &[]));
        assert_eq!(rows.row(2), Row::Sparse32(&[2, 1], &[1.0; 2]));
        let none = |x: &Matrix<'_, f32>, features, entries| {
            Needed::of(x, features, entries).expect("room").is_none()
        };
        assert!(none(&x, 2, 5) && none(&x, 3, 4) && none(&x, 0, 5));
        // Columns that are not there, features too many to number, and rows that are not sparse.
        let outside = Matrix::from(Csr::new(&[0_i64, 6], &indices, &values, 12).expect("rows"));
        assert!(none(&outside, 6, 6));
        let wide = Csr::new(&indptr, &indices, &values, u32::MAX as usize + 1).expect("rows");
        assert!(none(&wide.into(), 6, 6));
        assert!(none(&crate::Dense::new(&values, 2, 3).expect("rows").into(), 6, 6));
        let nothing = Matrix::from(Csr::new(&[0_i32, 0], &[], &[] as &[f32], 12).expect("rows"));
        assert_eq!(Needed::of(&nothing, 1, 0).expect("room").expect("few").features, [0]);
    }
}
