//! Validation of requests: the limits of a session, derived from its parameters and the algorithm table for fast checks.

use crate::algorithm::{
    Algorithm, Buffers, Esp, FieldLength, Kind, Lengths, Misuse, Operation, OperationInfo, Outcome, Prehash,
    SessionParams, Shape,
};
use crate::driver::Operands;

pub(crate) struct Limits {
    algorithm: Algorithm,
    /// Bit mask of the operations that the session may run.
    operations: u32,
    iv: Lengths,
    /// Maximum minus minimum length of IVs.
    iv_span: usize,
    /// Bytes of a digest, MAC, tag, signature or secret.
    tag_len: usize,
    /// Bit mask of the low bits of a length, which are 0 if the data consists of whole blocks.
    within_block: usize,
    min_data: usize,
    max_data: u64,
    /// The greatest length of data that is allowed with every IV, minus `min_data`.
    short_span: usize,
    /// The algorithm is CCM, in which the length of the nonce limits the length of the data.
    is_ccm: bool,
    /// The association of a session for packets.
    esp: Option<Esp>,
}

/// The operations of [`Operands::Cipher`].
const CIPHER_OPERATIONS: u32 = 1 << Operation::Encrypt as u32 | 1 << Operation::Decrypt as u32;

/// The operations of [`Operands::Compression`].
const COMPRESSION_OPERATIONS: u32 = 1 << Operation::Compress as u32 | 1 << Operation::Decompress as u32;

/// The operations of [`Operands::Packet`].
const PACKET_OPERATIONS: u32 = 1 << Operation::Protect as u32 | 1 << Operation::Unprotect as u32;

/// The mask of all operations, for operands that imply their operation.
const ALL_OPERATIONS: u32 = u32::MAX;

impl Limits {
    pub(crate) fn new(params: &SessionParams) -> Self {
        let algorithm = params.algorithm();
        let (info, iv) = (algorithm.info(), params.iv_lengths());
        let operations = info.kind.operations().iter().filter(|operation| params.allows(**operation));
        let is_ccm = matches!(algorithm, Algorithm::Aes128Ccm | Algorithm::Aes192Ccm | Algorithm::Aes256Ccm);
        // The message representative µ always has 64 bytes (FIPS 204).
        let (min_data, max_data) =
            if params.prehash() == Prehash::Mu { (64, 64) } else { (info.min_data, info.max_data) };
        let short_data = if is_ccm { u64::from(u16::MAX) } else { max_data };
        Self {
            algorithm,
            operations: operations.fold(0, |bits, operation| bits | 1 << *operation as u32),
            iv,
            iv_span: iv.max - iv.min,
            tag_len: params.tag_len(),
            within_block: info.block - 1,
            min_data,
            max_data,
            short_span: usize::try_from(short_data).unwrap_or(usize::MAX) - min_data,
            is_ccm,
            esp: params.esp(),
        }
    }

    /// Checks a request and returns its shape for routing. If it returns an `Outcome`, the request needs no device.
    #[inline(always)]
    pub(crate) fn check(&self, operands: &Operands<'_>) -> Result<(Shape, Option<Outcome>), Misuse> {
        match operands {
            Operands::Cipher { operation, iv, data } => {
                // The operation is a public field, so check it.
                self.check_operation(*operation, CIPHER_OPERATIONS)?;
                self.check_iv(iv)?;
                self.check_buffers(*operation, data).map(|shape| (shape, self.check_data(shape.bytes, iv.len())))
            }
            Operands::Seal { iv, data, tag, .. } => {
                self.check_operation(Operation::Seal, ALL_OPERATIONS)?;
                self.check_iv(iv)?;
                let shape = self.check_buffers(Operation::Seal, data)?;
                self.check_output(tag.len(), self.tag_len)?;
                Ok((shape, self.check_data(shape.bytes, iv.len())))
            }
            Operands::Open { iv, data, tag, .. } => {
                self.check_operation(Operation::Open, ALL_OPERATIONS)?;
                self.check_iv(iv)?;
                let shape = self.check_buffers(Operation::Open, data)?;
                // A tag of another length is a wrong tag and no misuse, because the peer determines the length.
                let short = (tag.len() != self.tag_len).then_some(Outcome::BadTag);
                Ok((shape, short.or_else(|| self.check_data(shape.bytes, iv.len()))))
            }
            Operands::Mac { iv, input, output } => {
                let shape = self.check_digest(Shape::new(Operation::Mac, input.len()), output)?;
                self.check_iv(iv).map(|()| (shape, None))
            }
            Operands::Digest { input, output } => {
                self.check_digest(Shape::new(Operation::Digest, input.len()), output).map(|shape| (shape, None))
            }
            _ => self.check_slow(operands).map(|outcome| (operands.shape(), outcome)),
        }
    }

    /// Checks steps of streams, and operations so slow that one more function call does not matter.
    #[inline(never)]
    fn check_slow(&self, operands: &Operands<'_>) -> Result<Option<Outcome>, Misuse> {
        let shape = operands.shape();
        match operands {
            Operands::Finish { output, .. } => return self.check_digest(shape, output).map(|_| None),
            Operands::Update { .. } => return self.check_operation(shape.operation, ALL_OPERATIONS).map(|()| None),
            Operands::Compression { operation, .. } => {
                return self.check_operation(*operation, COMPRESSION_OPERATIONS).map(|()| None);
            }
            Operands::Packet { operation, number, packet, payload_len, .. } => {
                self.check_operation(*operation, PACKET_OPERATIONS)?;
                let outcome = self.check_packet(*operation, *number, packet.len(), **payload_len)?;
                return Ok(outcome.or_else(|| self.check_header(*operation, *number, packet)));
            }
            _ => self.check_operation(shape.operation, ALL_OPERATIONS)?,
        }
        let (info, row, view) = (self.algorithm.info(), shape.operation.info(), operands.view());
        let needs = |length| info.length(length, 0, self.tag_len);
        self.check_output(view.output.len(), needs(row.output))?;
        match row.tag {
            // A private key may have two encodings.
            FieldLength::Key if !info.key.allows(view.tag.len()) => {
                return Err(Misuse::KeyLength { algorithm: self.algorithm, got: view.tag.len(), takes: info.key });
            }
            // A signature of another length is a wrong signature, just as a tag of another length is a wrong tag (`check`).
            FieldLength::GivenTag if view.tag.len() != self.tag_len => return Ok(Some(Outcome::BadTag)),
            FieldLength::Tag => self.check_output(view.tag.len(), self.tag_len)?,
            _ => {}
        }
        if row.takes_seed() {
            self.check_seed(view.iv, needs(row.iv))?;
        }
        Ok(if row.kind == Kind::Kem || row.returns_length {
            self.check_fixed(shape)
        } else {
            self.check_data(shape.bytes, 0)
        })
    }

    /// Checks a request whose data is in segments and not in operands. `bytes` is the length of the data, and `result_len` the length of
    /// the buffer for the result. For an operation with another result, such as a digest, both are the length of the data.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_scattered(
        &self,
        operands: &Operands<'_>,
        bytes: usize,
        result_len: usize,
    ) -> Result<(Shape, Option<Outcome>), Misuse> {
        if let Operands::Packet { operation, number, payload_len, .. } = operands {
            // Foreign memory may change: the device checks the packet's header in the copy that it opens.
            self.check_operation(*operation, PACKET_OPERATIONS)?;
            let outcome = self.check_packet(*operation, *number, bytes, **payload_len)?;
            return self.check_output(result_len, bytes).map(|()| (Shape { bytes, ..operands.shape() }, outcome));
        }
        let (shape, outcome) = self.check(operands)?;
        let shape = Shape { bytes, ..shape };
        self.check_output(result_len, bytes)?;
        let iv = match operands {
            Operands::Seal { iv, .. } | Operands::Open { iv, .. } => iv.len(),
            _ => 0,
        };
        let outcome = match shape.operation.info() {
            // Operations of these kinds take data of any length.
            OperationInfo { kind: Kind::Digest | Kind::Mac | Kind::Compression, .. } => outcome,
            _ if outcome == Some(Outcome::BadTag) => outcome,
            OperationInfo { kind: Kind::Kem, .. } | OperationInfo { returns_length: true, .. } => {
                self.check_fixed(shape)
            }
            _ => self.check_data(bytes, iv),
        };
        Ok((shape, outcome))
    }

    #[inline(always)]
    fn check_operation(&self, operation: Operation, mask: u32) -> Result<(), Misuse> {
        let is_allowed = (self.operations & mask) >> operation as u32 & 1 == 1;
        if is_allowed { Ok(()) } else { Err(self.operation_misuse(operation)) }
    }

    #[inline(always)]
    fn check_buffers(&self, operation: Operation, data: &Buffers<'_>) -> Result<Shape, Misuse> {
        match data {
            Buffers::InPlace(data) => Ok(Shape { operation, bytes: data.len(), in_place: true }),
            Buffers::Separate { input, output } => {
                self.check_output(output.len(), input.len())?;
                Ok(Shape { operation, bytes: input.len(), in_place: false })
            }
        }
    }

    /// Checks operands whose output has the length of a tag.
    #[inline(always)]
    fn check_digest(&self, shape: Shape, output: &[u8]) -> Result<Shape, Misuse> {
        self.check_operation(shape.operation, ALL_OPERATIONS)?;
        self.check_output(output.len(), self.tag_len).map(|()| shape)
    }

    #[inline(always)]
    pub(crate) fn check_iv(&self, iv: &[u8]) -> Result<(), Misuse> {
        // One comparison suffices, because every length between the shortest and the longest is allowed.
        let is_allowed = iv.len().wrapping_sub(self.iv.min) <= self.iv_span;
        if is_allowed { Ok(()) } else { Err(self.iv_misuse(iv.len())) }
    }

    #[inline(always)]
    fn check_output(&self, got: usize, needs: usize) -> Result<(), Misuse> {
        if got == needs { Ok(()) } else { Err(Misuse::OutputLength { algorithm: self.algorithm, got, needs }) }
    }

    /// Checks the number and the lengths of a packet. A wrong number is a misuse, and so is a packet to be protected with a length that
    /// does not fit its payload. A packet longer than the algorithm allows, or a malformed received packet, gets an outcome.
    #[inline(never)]
    fn check_packet(
        &self,
        operation: Operation,
        number: u64,
        packet_len: usize,
        payload_len: usize,
    ) -> Result<Option<Outcome>, Misuse> {
        let Some(Esp { extended, .. }) = self.esp else { return Err(self.operation_misuse(operation)) };
        let last = if extended { u64::MAX } else { u32::MAX.into() };
        if !(1..=last).contains(&number) {
            return Err(Misuse::Number { algorithm: self.algorithm, got: number, last });
        }
        let info = self.algorithm.info();
        if operation == Operation::Protect {
            self.check_output(packet_len, info.packet_length(payload_len, self.tag_len))?;
            return Ok((packet_len as u64 > info.max_data).then_some(Outcome::BadLength));
        }
        let fits = packet_len as u64 <= info.max_data && info.payload_length(packet_len, self.tag_len).is_some();
        Ok((!fits).then_some(Outcome::Malformed))
    }

    /// Checks that a received packet has the session's SPI and the low 32 bits of the number.
    fn check_header(&self, operation: Operation, number: u64, packet: &[u8]) -> Option<Outcome> {
        let spi = self.esp.map_or(0, |esp| esp.spi);
        let fits = packet[..4] == spi.to_be_bytes() && packet[4..8] == (number as u32).to_be_bytes();
        (operation == Operation::Unprotect && !fits).then_some(Outcome::Malformed)
    }

    /// Checks a seed; if the seed is empty, the device draws random bytes.
    fn check_seed(&self, seed: &[u8], takes: usize) -> Result<(), Misuse> {
        let (algorithm, got) = (self.algorithm, seed.len());
        if got == 0 || got == takes { Ok(()) } else { Err(Misuse::SeedLength { algorithm, got, takes }) }
    }

    /// Checks data of a fixed length. The data may come from a peer, so a wrong length is no misuse.
    #[inline(never)]
    fn check_fixed(&self, shape: Shape) -> Option<Outcome> {
        let takes = self.algorithm.info().fixed_data_length(shape.operation);
        (takes != Some(shape.bytes)).then_some(Outcome::BadLength)
    }

    #[inline(always)]
    fn check_data(&self, bytes: usize, iv_len: usize) -> Option<Outcome> {
        let short = bytes.wrapping_sub(self.min_data) <= self.short_span;
        let is_allowed = bytes & self.within_block == 0 && (short || self.is_length_allowed(bytes, iv_len));
        if is_allowed { None } else { Some(Outcome::BadLength) }
    }

    /// Handles data outside `short_span`: returns `true` if the length is allowed with this IV.
    #[cold]
    fn is_length_allowed(&self, bytes: usize, iv_len: usize) -> bool {
        bytes >= self.min_data && bytes as u64 <= self.max_data(iv_len)
    }

    /// Returns the maximum bytes of data with an IV of `iv_len` bytes, in one piece or in chunks.
    pub(crate) fn max_data(&self, iv_len: usize) -> u64 {
        // RFC 3610: a nonce of N bytes (7 or more) leaves 15 - N bytes for the length.
        if self.is_ccm { u64::MAX >> (8 * (iv_len - 7)) } else { self.max_data }
    }

    #[cold]
    fn iv_misuse(&self, got: usize) -> Misuse {
        Misuse::IvLength { algorithm: self.algorithm, got, takes: self.iv }
    }

    #[cold]
    fn operation_misuse(&self, operation: Operation) -> Misuse {
        Misuse::Operation { algorithm: self.algorithm, operation }
    }
}
