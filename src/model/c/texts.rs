//! The functions of a header, in parts.
//!
//! `@` stands for the name and an underscore, `$` for the same in capitals, `real` for the scalar, `%` for what else is
//! filled in: the row after all steps, mostly. Functions of `<math.h>` are called as those of double precision are.

pub(super) const POWER: &str = "
    real product = 1;
    while (exponent > 0) {
        if (exponent & 1) {
            product *= base;
        }
        exponent >>= 1;
        if (exponent > 0) {
            base *= base;
        }
    }
    return product;";

pub(super) const PREPARED: &str = "
    real prepared[$FEATURES];
    for (size_t j = 0; j < $FEATURES; ++j) {
        real value = x[j];%
        prepared[j] = value;
    }";

pub(super) const MAPPED: &str = "
    real mapped[$MAPPED];
    for (size_t i = 0; i < $MAPPED; ++i) {
        real sum = 0;
        for (size_t j = 0; j < $FEATURES; ++j) {
            sum += @metric[i][j] * %[j];
        }
        mapped[i] = sum;
    }";

pub(super) const LINEAR: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        real sum = 0;
        for (size_t j = 0; j < $FEATURES; ++j) {
            sum += @weights[k][j] * %[j];
        }
        out[k] = sum + @intercepts[k];
    }";

pub(super) const BEGIN: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        out[k] = %;
    }";

pub(super) const PRODUCT: &str = "
        real value = 0;
        for (size_t j = 0; j < $MAPPED; ++j) {
            value += %[j] * @vectors[i][j];
        }";

pub(super) const DISTANCE: &str = "
        real value = 0;
        for (size_t j = 0; j < $MAPPED; ++j) {
            const real apart = %[j] - @vectors[i][j];
            value += apart * apart;
        }";

pub(super) const ADD_ALL: &str = "
        for (size_t k = 0; k < $OUTPUTS; ++k) {
            out[k] += @coefs[i][k] * value;
        }";

pub(super) const ADD_SOME: &str = "
        for (size_t end = at + @counts[i]; at < end; ++at) {
            out[@places[at]] += @coefs[at] * value;
        }";

pub(super) const PREDICT_ONE: &str = "
    (void)x;
    return 0;";

pub(super) const PREDICT_TWO: &str = "
    real score[1];
    @scores(x, score);
    return score[0] > 0;";

pub(super) const PREDICT_PAIRS: &str = "
    real scores[$OUTPUTS];
    real sums[$CLASSES] = {0};
    real votes[$CLASSES] = {0};
    size_t pair = 0;
    int best = 0;
    @scores(x, scores);
    for (int i = 0; i < $CLASSES; ++i) {
        for (int j = i + 1; j < $CLASSES; ++j) {
            votes[scores[pair] < 0 ? j : i] += 1;
            sums[i] += scores[pair];
            sums[j] -= scores[pair];
            ++pair;
        }
    }
    for (int i = 0; i < $CLASSES; ++i) {
        /* Less than half a vote: it breaks ties. */
        votes[i] += sums[i] / (3 * ((sums[i] < 0 ? -sums[i] : sums[i]) + 1));
        best = votes[i] > votes[best] ? i : best;
    }
    return best;";

pub(super) const PREDICT_EACH: &str = "
    real scores[$OUTPUTS];
    int best = 0;
    @scores(x, scores);
    for (int i = 1; i < $CLASSES; ++i) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;";

pub(super) const LOGISTIC: &str = "
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));";

pub(super) const RISING: &str = "
    size_t after = 0;
    while (after < n && thresholds[after] <= score) {
        ++after;
    }
    if (after == 0) {
        return values[0];
    }
    if (after == n) {
        return values[n - 1];
    }
    return values[after - 1] + (score - thresholds[after - 1]) / (thresholds[after] - thresholds[after - 1])
        * (values[after] - values[after - 1]);";

pub(super) const SOFTMAX: &str = "
    real largest = @beta * scores[0];
    for (size_t k = 1; k < $OUTPUTS; ++k) {
        largest = @beta * scores[k] > largest ? @beta * scores[k] : largest;
    }
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = exp(@beta * scores[k] - largest);
    }";

pub(super) const COOLED: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = @logistic(@beta * scores[k]);
    }";

pub(super) const SIGMOIDS: &str = "
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        scores[k] = @logistic(-(@sigmoids[k][0] * scores[k] + @sigmoids[k][1]));
    }";

pub(super) const OF_TWO: &str = "
    out[0] = 1 - scores[0];
    out[1] = scores[0];";

pub(super) const SHARES: &str = "
    real total = 0;
    real even = 1;
    even /= $CLASSES;
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        total += scores[k];
    }
    for (size_t k = 0; k < $OUTPUTS; ++k) {
        out[k] = total > 0 ? scores[k] / total : even;
    }";
