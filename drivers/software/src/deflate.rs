//! DEFLATE, zlib and gzip, by libdeflate: whole buffers, with a checksum if the format has one.

use std::sync::Arc;

use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};
use libdeflate_sys as ld;

use crate::free_list::FreeList;
use crate::gzip;
use crate::owned::Owned;
use crate::session::{SessionResult, failed_call, unsupported_operation};

/// Opens a session of raw DEFLATE, zlib or gzip.
pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let format = match params.algorithm() {
        Algorithm::Deflate => &RAW,
        Algorithm::Zlib => &ZLIB,
        Algorithm::Gzip => &GZIP,
        _ => return Err(Unsupported::because("not a format of DEFLATE")),
    };
    let level =
        i32::try_from(params.level()).map_err(|_| Unsupported::because("invalid compression level for DEFLATE"))?;
    Ok(Arc::new(Deflate { format, level, compressors: FreeList::new(), decompressors: FreeList::new() }))
}

/// libdeflate's functions for a format, and whether several streams may follow one another.
struct Format {
    compress: CompressFn,
    decompress: DecompressFn,
    has_members: bool,
}

/// Takes context, input with its length, output with its length. Returns the length of the result, or 0 if there is no room.
type CompressFn = unsafe extern "C" fn(*mut ld::libdeflate_compressor, *const Void, usize, *mut Void, usize) -> usize;

/// Takes context, input and output with their lengths, and pointers for the bytes used of both.
type DecompressFn = unsafe extern "C" fn(
    *mut ld::libdeflate_decompressor,
    *const Void,
    usize,
    *mut Void,
    usize,
    *mut usize,
    *mut usize,
) -> ld::libdeflate_result;

type Void = std::ffi::c_void;

static RAW: Format = Format {
    compress: ld::libdeflate_deflate_compress,
    decompress: ld::libdeflate_deflate_decompress_ex,
    has_members: false,
};
static ZLIB: Format = Format {
    compress: ld::libdeflate_zlib_compress,
    decompress: ld::libdeflate_zlib_decompress_ex,
    has_members: false,
};
static GZIP: Format =
    Format { compress: ld::libdeflate_gzip_compress, decompress: ld::libdeflate_gzip_decompress_ex, has_members: true };

struct Deflate {
    format: &'static Format,
    level: i32,
    compressors: FreeList<Owned<ld::libdeflate_compressor>>,
    decompressors: FreeList<Owned<ld::libdeflate_decompressor>>,
}

impl Deflate {
    /// Returns the length of the result; `None` if there is no room.
    fn compress(&self, input: &[u8], output: &mut [u8]) -> Result<Option<usize>, Fault> {
        // SAFETY: the context is new.
        let make =
            || unsafe { Owned::new(ld::libdeflate_alloc_compressor(self.level), ld::libdeflate_free_compressor) };
        let length = self.compressors.with(make, |context| {
            let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
            // SAFETY: access to the context is exclusive, and both buffers have their lengths.
            unsafe { (self.format.compress)(context.as_ptr(), from, input.len(), to, output.len()) }
        });
        let length = length.ok_or_else(|| failed_call("libdeflate_alloc_compressor"))?;
        Ok((length > 0).then_some(length))
    }

    /// Decompresses all of the input, one stream or several members with zeros after them. Returns the outcome and the length of the
    /// result.
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(Outcome, usize), Fault> {
        // SAFETY: the context is new.
        let make = || unsafe { Owned::new(ld::libdeflate_alloc_decompressor(), ld::libdeflate_free_decompressor) };
        let decompressed = self.decompressors.with(make, |context| {
            let (mut read, mut written) = (0, 0);
            loop {
                let (from, to) = (&input[read..], &mut output[written..]);
                if self.format.has_members && !gzip::has_sound_header(from) {
                    return (Outcome::Malformed, 0);
                }
                let (mut consumed, mut produced) = (0, 0);
                // SAFETY: access to the context is exclusive, both buffers have their lengths, and there is room for two numbers.
                let result = unsafe {
                    (self.format.decompress)(
                        context.as_ptr(),
                        from.as_ptr().cast(),
                        from.len(),
                        to.as_mut_ptr().cast(),
                        to.len(),
                        &raw mut consumed,
                        &raw mut produced,
                    )
                };
                match result {
                    ld::libdeflate_result_LIBDEFLATE_SUCCESS => (read, written) = (read + consumed, written + produced),
                    ld::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => return (Outcome::NoRoom, 0),
                    _ => return (Outcome::Malformed, 0),
                }
                let rest = &input[read..];
                if rest.is_empty() || (self.format.has_members && gzip::is_padding(rest)) {
                    return (Outcome::Done, written);
                }
                if !self.format.has_members {
                    return (Outcome::Malformed, 0);
                }
            }
        });
        decompressed.ok_or_else(|| failed_call("libdeflate_alloc_decompressor"))
    }
}

impl DeviceSession for Deflate {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Compression { operation, input, output, written } = operands else {
            return unsupported_operation();
        };
        let (outcome, length) = match operation {
            Operation::Compress => match self.compress(input, output)? {
                Some(length) => (Outcome::Done, length),
                None => (Outcome::NoRoom, 0),
            },
            Operation::Decompress => self.decompress(input, output)?,
            _ => return unsupported_operation(),
        };
        *written = length;
        Ok(outcome)
    }
}
