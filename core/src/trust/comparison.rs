use crate::algorithm::Outcome;

/// A second computation beside the first.
pub(crate) enum Comparison {
    /// Nothing: the reference cannot compute this request.
    None,
    /// Both agree.
    Same,
    /// The device was wrong; this is the right outcome.
    Differs(Outcome),
}
