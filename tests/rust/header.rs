//! Headers for C: what is refused, and what a text holds. `tests/python/test_c.py` compiles and runs them.

use pegasos::{Classifier, Dense, ErrorKind, Kernel, Label, Model};

const POINTS: [f64; 4] = [-2.0, -1.0, 1.0, 3.0];

fn model<L: Clone + Into<Label>>(labels: &[L]) -> Model {
    let x = Dense::new(&POINTS, 4, 1).unwrap();
    Classifier::default().fit(x, labels).unwrap()
}

#[test]
fn names_must_be_names_in_c() {
    let model = model(&[0, 0, 1, 1]);
    for name in ["", "1a", "_a", "a b", "a*/", "a-b", "\u{e4}", &"a".repeat(41)] {
        let error = model.to_c(name).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Parameter { name: "name", .. }), "{error}");
    }
    assert!(model.to_c(&"a".repeat(40)).is_ok());
}

#[test]
fn labels_are_literals() {
    let header = model(&["a\"b", "a\"b", "*/ ??/ \u{e9}\n", "c"]).to_c("m").unwrap();
    let want = "static const char *const m_labels[3] = {\n    \"*/ \\?\\?/ \\303\\251\\012\", \"a\\\"b\", \"c\",\n};\n";
    assert!(header.contains(want), "{header}");
    let header = model(&[i64::MIN, 0, 1, i64::MAX]).to_c("m").unwrap();
    let want = "{\n    -9223372036854775807 - 1, 0, 1, 9223372036854775807,\n};\n";
    assert!(header.contains(want), "{header}");
    for label in ["a\0b", &"a".repeat(4096)] {
        let error = model(&["", "", "", label]).to_c("m").unwrap_err();
        assert!(error.to_string().starts_with("a label must"), "{error}");
    }
}

#[test]
fn arrays_have_a_limit() {
    let n_features = 1 << 20;
    let mut values = vec![0.0; 3 * n_features];
    (0..3).for_each(|i| values[i * n_features + i] = 1.0);
    let x = Dense::new(&values, 3, n_features).unwrap();
    let model = Classifier::default().fit(x, &[0, 1, 2]).unwrap();
    let error = model.to_c("m").unwrap_err().to_string();
    let want = "the model must have arrays of at most 16 MiB to be written in C, got 24.0 MiB";
    assert_eq!(error, want);
}

#[test]
fn precomputed_kernels_have_no_rows() {
    let x = Dense::new(&[1.0, 0.0, 0.0, 1.0], 2, 2).unwrap();
    let machine = Classifier::with_kernel(Kernel::Precomputed);
    let error = machine.fit(x, &[0, 1]).unwrap().to_c("m").unwrap_err().to_string();
    assert!(error.starts_with("kernel must be"), "{error}");
}
