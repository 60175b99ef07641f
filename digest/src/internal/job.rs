//! A request to a hash function.

/// One request: `input` is the next piece of `stream`, or the whole message if there is no stream. With an `output` the message ends: its
/// digest is written there, cut to the length of `output`, and the stream restarts.
pub struct Job<'a, Start, Stream> {
    pub start: &'a Start,
    pub stream: Option<&'a mut Stream>,
    pub input: &'a [u8],
    pub output: Option<&'a mut [u8]>,
}
