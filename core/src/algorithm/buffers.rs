//! The data of a request.

/// The data of a request: in one buffer, or from one buffer into another of the same length.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// Input and output are the same bytes.
    InPlace(&'a mut [u8]),
    /// Input and output do not overlap.
    Separate {
        /// The data that is read.
        input: &'a [u8],
        /// The result, of the same length.
        output: &'a mut [u8],
    },
}

#[allow(clippy::len_without_is_empty, reason = "an amount of work, not a container")]
impl<'a> Buffers<'a> {
    /// Returns the number of input bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.input().len()
    }

    /// Returns the data that is read.
    #[inline]
    pub fn input(&self) -> &[u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { input, .. } => input,
        }
    }

    /// Returns the buffer of the result, for the lifetime of the buffers.
    pub(crate) fn into_output(self) -> &'a mut [u8] {
        let (Buffers::InPlace(output) | Buffers::Separate { output, .. }) = self;
        output
    }

    /// Returns the data that is read, for the lifetime of the buffers.
    #[inline]
    pub(crate) fn into_input(self) -> &'a [u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { input, .. } => input,
        }
    }

    /// Returns the buffer of the result. If the operation is in place, the buffer still has the input.
    pub fn output(&mut self) -> &mut [u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { output, .. } => output,
        }
    }

    /// Returns the same buffers for a shorter lifetime.
    #[inline]
    pub fn reborrow(&mut self) -> Buffers<'_> {
        match self {
            Buffers::InPlace(data) => Buffers::InPlace(data),
            Buffers::Separate { input, output } => Buffers::Separate { input, output },
        }
    }

    /// Returns the buffer of the result for reading.
    pub(crate) fn result(&self) -> &[u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { output, .. } => output,
        }
    }

    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        match self {
            Buffers::InPlace(data) => data.len(),
            Buffers::Separate { output, .. } => output.len(),
        }
    }
}

impl<'a> From<&'a mut [u8]> for Buffers<'a> {
    fn from(data: &'a mut [u8]) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for Buffers<'a> {
    fn from(data: &'a mut [u8; N]) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a> From<&'a mut Vec<u8>> for Buffers<'a> {
    fn from(data: &'a mut Vec<u8>) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a> From<(&'a [u8], &'a mut [u8])> for Buffers<'a> {
    fn from((input, output): (&'a [u8], &'a mut [u8])) -> Self {
        Buffers::Separate { input, output }
    }
}
