//! What a run tells.

/// What a [`run`](crate::Trainer::run) has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Examples visited.
    pub examples: u64,
    /// Of these, how many had a coefficient that was not zero.
    pub updates: u64,
    /// The sum of weight times loss, each example scored before w had learned from it.
    pub loss: f64,
    /// Steps.
    pub steps: u64,
    /// How many of the examples had no smaller a loss than with scores of 0: were not classified right then, where it is
    /// the loss of one problem. Progressive validation.
    pub mistakes: u64,
    /// By how much w has degraded to stay within a budget: the sum of `||dw||^2`.
    pub degradation: f64,
    /// The sum of `||dw||/eta`: over the number of steps, the mean gradient error of Wang, Crammer and Vucetic
    /// (2010, Theorem 1).
    pub gradient_error: f64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.examples += other.examples;
        self.updates += other.updates;
        self.loss += other.loss;
        self.steps += other.steps;
        self.mistakes += other.mistakes;
        self.degradation += other.degradation;
        self.gradient_error += other.gradient_error;
    }
}
