//! States that a w may be restored from.

use pegasos::{Linear, LinearState, Params, Trainer};

use crate::generated::HINGE;

/// What no w can be is refused when it is restored, and what the scalar cannot hold when steps are to go on from there.
#[test]
fn states_that_no_w_has_are_refused() {
    let state = || Linear::<f64>::new(1, 2, 0.0).unwrap().state();
    assert!(Linear::from_state(2, state()).is_ok());
    assert!(Linear::<f64>::from_state(2, LinearState::default()).is_err());
    let flat = LinearState { v: Vec::new(), ..state() };
    assert!(Linear::from_state(0, flat).is_err());
    let mut still = state();
    still.scale.a = 0.0;
    assert!(Linear::from_state(2, still).unwrap_err().to_string().contains("> 0"));
    let single = LinearState { v: vec![1.0_f32, 2.0], b: vec![0.0], ..LinearState::default() };
    let w = Linear::from_state(2, single).unwrap();
    let resume = |lambda, t| {
        let params = Params { lambda, ..Params::default() };
        Trainer::resume(w.clone(), HINGE, params, t).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(resume(1e-4, 10), Ok(()));
    assert!(resume(1e-50, 10).unwrap_err().starts_with("lambda must be such that"));
    assert!(resume(1e38, 1000).unwrap_err().contains("w overflows"));
}
