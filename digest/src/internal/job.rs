//! A request to a hash function.

/// One request.
pub struct Job<'a, Setup, Stream> {
    /// The state before the message.
    pub setup: &'a Setup,
    /// A message that arrives in pieces.
    pub stream: Option<&'a mut Stream>,
    /// The next piece of `stream`, or the whole message if there is no stream.
    pub input: &'a [u8],
    /// Ends the message: receives its digest, cut to this length, and the stream restarts.
    pub output: Option<&'a mut [u8]>,
}
