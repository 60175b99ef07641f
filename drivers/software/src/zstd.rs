//! Zstandard, by its own library. Frames have a checksum, as those of the command `zstd` do.

use std::sync::Arc;

use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};
use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CParameter, DCtx, ErrorCode, get_error_name};

use crate::session::{Opened, wrong_kind};
use crate::spare::Spare;

pub(crate) fn open(params: &SessionParams) -> Opened {
    let level = i32::try_from(params.compression_level()).map_err(|_| Unsupported::because("no level of zstd"))?;
    Ok(Arc::new(Zstd { level, compressors: Spare::new(), decompressors: Spare::new() }))
}

struct Zstd {
    level: i32,
    compressors: Spare<CCtx<'static>>,
    decompressors: Spare<DCtx<'static>>,
}

impl Zstd {
    fn compressor(&self) -> Option<CCtx<'static>> {
        let mut context = CCtx::try_create()?;
        context.set_parameter(CParameter::CompressionLevel(self.level)).ok()?;
        context.set_parameter(CParameter::ChecksumFlag(true)).ok()?;
        Some(context)
    }
}

/// Whether the code is this error.
fn is(code: ErrorCode, error: ZSTD_ErrorCode) -> bool {
    code == (error as ErrorCode).wrapping_neg()
}

impl DeviceSession for Zstd {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Compression { operation, input, output, written } = operands else { return wrong_kind() };
        let result = match operation {
            Operation::Compress => {
                self.compressors.with(|| self.compressor(), |context| context.compress2(output, input))
            }
            // No frame is not the frame of nothing.
            Operation::Decompress if input.is_empty() => return Ok(Outcome::Malformed),
            Operation::Decompress => {
                self.decompressors.with(DCtx::try_create, |context| context.decompress(output, input))
            }
            _ => return wrong_kind(),
        };
        *written = 0;
        match result {
            Some(Ok(length)) => {
                *written = length;
                Ok(Outcome::Done)
            }
            Some(Err(code)) if is(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => Ok(Outcome::NoRoom),
            Some(Err(code))
                if operation == Operation::Compress || is(code, ZSTD_ErrorCode::ZSTD_error_memory_allocation) =>
            {
                Err(Fault::failed(get_error_name(code)))
            }
            Some(Err(_)) => Ok(Outcome::Malformed),
            None => Err(Fault::failed("no memory for a context of zstd")),
        }
    }
}
