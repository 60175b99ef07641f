//! Zstandard, by its own library. Frames have a checksum, like those of the command `zstd`.

use std::sync::Arc;

use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};
use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CParameter, DCtx, ErrorCode, get_error_name};

use crate::free_list::FreeList;
use crate::session::{SessionResult, unsupported_operation};

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let level =
        i32::try_from(params.level()).map_err(|_| Unsupported::because("invalid compression level for zstd"))?;
    Ok(Arc::new(Zstd { level, compressors: FreeList::new(), decompressors: FreeList::new() }))
}

struct Zstd {
    level: i32,
    compressors: FreeList<CCtx<'static>>,
    decompressors: FreeList<DCtx<'static>>,
}

impl Zstd {
    fn compressor(&self) -> Option<CCtx<'static>> {
        let mut context = CCtx::try_create()?;
        context.set_parameter(CParameter::CompressionLevel(self.level)).ok()?;
        context.set_parameter(CParameter::ChecksumFlag(true)).ok()?;
        Some(context)
    }
}

/// Returns whether the code is this error.
fn is_error(code: ErrorCode, error: ZSTD_ErrorCode) -> bool {
    code == (error as ErrorCode).wrapping_neg()
}

impl DeviceSession for Zstd {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Compression { operation, input, output, written } = operands else {
            return unsupported_operation();
        };
        let result = match operation {
            Operation::Compress => {
                self.compressors.with(|| self.compressor(), |context| context.compress2(output, input))
            }
            // Empty input is not a valid frame.
            Operation::Decompress if input.is_empty() => return Ok(Outcome::Malformed),
            Operation::Decompress => {
                self.decompressors.with(DCtx::try_create, |context| context.decompress(output, input))
            }
            _ => return unsupported_operation(),
        };
        *written = 0;
        match result {
            Some(Ok(length)) => {
                *written = length;
                Ok(Outcome::Done)
            }
            Some(Err(code)) if is_error(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => Ok(Outcome::NoRoom),
            Some(Err(code))
                if operation == Operation::Compress || is_error(code, ZSTD_ErrorCode::ZSTD_error_memory_allocation) =>
            {
                Err(Fault::failed(get_error_name(code)))
            }
            Some(Err(_)) => Ok(Outcome::Malformed),
            None => Err(Fault::failed("out of memory for a context of zstd")),
        }
    }
}
