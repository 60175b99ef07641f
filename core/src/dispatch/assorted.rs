//! The data of a submission that are not all in vectors: in other buffers, or in segments of regions.

use zeroize::Zeroizing;

use crate::algorithm::{Buffers, Data, Outcome, Segments};
use crate::driver::Scattered;

/// Data, and where the result goes if not there.
#[derive(Clone)]
pub(super) struct Assorted {
    pub(super) data: Data,
    pub(super) output: Option<Data>,
    /// The result takes the place of the data, or goes to the output. Other results are tags.
    writes: bool,
    /// Of what lies in segments, while a queue has the submission and a device needed it contiguous.
    copies: Option<Copies>,
}

/// Contiguous buffers in place of segments; empty where there are none. Wiped, because nobody else can.
#[derive(Clone, Default)]
struct Copies {
    data: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
}

impl Assorted {
    #[cold]
    pub(super) fn new(writes: bool, data: Data, output: Option<Data>) -> Box<Self> {
        Box::new(Self { data, output, writes, copies: None })
    }

    /// Where the result goes.
    pub(super) fn result(&self) -> &Data {
        self.output.as_ref().filter(|_| self.writes).unwrap_or(&self.data)
    }

    /// Whether something lies in segments, of what a device reads or writes.
    pub(super) fn has_segments(&self) -> bool {
        self.data.segments().or(self.result().segments()).is_some()
    }

    /// Bytes that it keeps in memory.
    #[cold]
    pub(super) fn bytes(&self) -> usize {
        self.data.len() + self.output.as_ref().map_or(0, Data::len)
    }

    /// The data, if all of them lie in segments that were not copied.
    pub(super) fn scattered(&self) -> Option<Scattered<'_>> {
        let (input, output) = (self.data.segments()?, self.result().segments()?);
        self.copies.is_none().then_some(Scattered { input, output })
    }

    /// What a device reads and writes: of segments their copies, and nothing at all before these are made.
    #[cold]
    pub(super) fn buffers(&mut self) -> Buffers<'_> {
        fn slice<'a>(data: &'a mut Data, copy: &'a mut [u8]) -> &'a mut [u8] {
            match data {
                Data::Vec(data) => data,
                Data::Buffer(data) => data.as_mut_slice(),
                Data::Segments(_) => copy,
            }
        }
        if self.copies.is_none() && self.has_segments() {
            return Buffers::InPlace(&mut []);
        }
        let copies = self.copies.get_or_insert_default();
        let input = slice(&mut self.data, &mut copies.data);
        match self.output.as_mut().filter(|_| self.writes) {
            Some(output) => Buffers::Separate { input, output: slice(output, &mut copies.output) },
            None => Buffers::InPlace(input),
        }
    }

    /// Copies what lies in segments, for the rest of the request. Returns how many bytes were copied.
    pub(super) fn copy_in(&mut self) -> usize {
        let zeros = |segments: Option<&Segments>| Zeroizing::new(vec![0; segments.map_or(0, Segments::bytes)]);
        let output = self.output.as_ref().filter(|_| self.writes).and_then(Data::segments);
        let mut copies = Copies { data: zeros(self.data.segments()), output: zeros(output) };
        if let Data::Segments(segments) = &self.data {
            segments.read(&mut copies.data).expect("the copy has the length of the segments");
        }
        let bytes = copies.data.len();
        self.copies = Some(copies);
        bytes
    }

    /// Ends the copies. A result goes into its segments, and only of a request that ended well: nothing of what was decrypted with
    /// a bad tag does. Returns how many bytes were copied.
    #[cold]
    pub(super) fn copy_out(&mut self, outcome: Option<Outcome>) -> usize {
        let Some(copies) = self.copies.take() else { return 0 };
        let Some(segments) = self.result().segments().filter(|_| self.writes && outcome == Some(Outcome::Done)) else {
            return 0;
        };
        let copy = if self.output.is_some() { &copies.output } else { &copies.data };
        segments.write(copy).expect("the copy has the length of the segments");
        copy.len()
    }
}
