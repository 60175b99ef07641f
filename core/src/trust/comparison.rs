use crate::algorithm::Outcome;

/// The comparison of a device's result with a second computation.
pub(crate) enum Comparison {
    /// No comparison: the reference cannot compute this request.
    None,
    /// The two results agree.
    Same,
    /// The device was wrong. The value is the right outcome.
    Differs(Outcome),
}
